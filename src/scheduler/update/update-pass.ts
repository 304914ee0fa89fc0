import { Control, PendingOp } from '../../core/core.js';
import { continueSession } from '../life/chunks.js';
import { finishDetached } from '../life/finish.js';
import { discardOutputs, preemptByForce } from '../life/preempt.js';
import type { KvGroups } from '../options/kv-groups.js';
import type { VersionRules } from '../options/rules.js';
import type { Plan } from '../plan/plan.js';
import type { ParsedResult } from '../plan/step-result.js';
import type { Request } from '../request/request.js';
import { FinishCode } from '../request/status.js';
import { checkStop } from '../request/stop-conditions.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/** The first word of a queued append operation; the slot is added to it. */
const APPEND = PendingOp.append << 24;

/**
 * Appends the sampled tokens, stops requests and fills `s.outputs` (the token half of vLLM `update_from_output`).
 *
 * All tokens of the step are queued for the native core first, then the operations that depend on
 * them. These are publications, and the ends of requests in batch order. They cross into native
 * code with the next schedule.
 */
export function updatePass(s: SchedulerState, plan: Plan, result: ParsedResult): void {
  const { tokens, counts, numTokens } = result;
  const { maxDrafts, now } = s;
  const pipelined = s.pipelined === true;
  const delivers = s.delivers === true;
  // Without steps in flight, only a reset can preempt between a plan and its update, and a reset
  // drops the outputs.
  const awaits = pipelined && s.config.preemptedOutputs === 'await';
  const { requests, numRequests, dropped, numDraftTokens } = plan;
  const { requests: rowRequests, tokenOffsets, tokenCounts, finishReasons } = s.outputs;
  const { control, pending } = s.core;
  s.core.reserve(numTokens);
  const firstRow = s.outputs.length;
  const numSteady = s.steady === null ? 0 : s.steady.apply(plan, result, s.outputs, now);
  let row = s.outputs.length;
  let cursor = 2 * control[Control.numPending];
  const goesOn = FinishCode.none;
  let stopped = s.steady === null ? goesOn : s.steady.stopped;
  const numTaken = row - firstRow;
  let end = numSteady;
  for (let i = numSteady; i < numRequests; i++) {
    const request = requests[i];
    const from = end;
    end += counts[i];
    // Get and skip: the request ended, or its outputs were voided, while this step ran.
    if (request.finishCode !== goesOn || dropped[i] !== 0) {
      s.counters.droppedOutputs++;
      continue;
    }
    if (end === from) continue;
    if (delivers && hasLost(request, plan) && mustRecompute(s, request, tokens, from, end)) {
      s.counters.droppedOutputs++;
      sendBack(s, plan, request);
      continue;
    }
    // Such a request no longer has placeholders and computed tokens of this step.
    const isStale = awaits && hasLost(request, plan);
    if (maxDrafts > 0 && numDraftTokens[i] > 0 && !isStale) rejectDrafts(s, plan, i, end - from);

    const append = APPEND | request.slot;
    // For a request after a steady decode this is the count itself.
    let known = request.tokensBase;
    let next = from;
    let reason: FinishCode = goesOn;
    do {
      const token = tokens[next++];
      request.tokensBase = ++known;
      pending[cursor] = append;
      pending[cursor + 1] = token;
      cursor += 2;
      if (token === request.eosTokenId || known >= request.checkFrom) reason = checkStop(request, token, now);
    } while (next < end && reason === goesOn);
    if (pipelined && !isStale) settlePlaceholders(s, plan, request, next - from);
    stopped |= reason;
    if (rowRequests[row] !== request) rowRequests[row] = request;
    tokenOffsets[row] = from;
    tokenCounts[row] = next - from;
    finishReasons[row++] = reason;
  }
  s.outputs.length = row;
  s.counters.generationTokens += numTaken + (cursor >> 1) - control[Control.numPending];
  control[Control.numPending] = cursor >> 1;
  publishSettled(s, plan);
  if (plan.sentBack.length > 0) preemptSentBack(s, plan);
  // As in vLLM, drafts that a grammar refused do not count as proposed.
  s.counters.specDraftTokens -= plan.numInvalidDrafts;
  if (s.structured.size > 0) stopped |= acceptTokens(s, firstRow);
  if (stopped === goesOn) return;
  endStopped(s, firstRow);
  s.steady?.dropStopped();
}

/**
 * Whether a request has lost the blocks that this step computed: it was preempted since, and may
 * have been admitted again.
 */
function hasLost({ container, admittedStep }: Request, plan: Plan): boolean {
  return container !== 'running' || admittedStep > plan.step;
}

/**
 * Voids the outputs in flight of a request that must be computed again. A request that runs again
 * frees its blocks only after all tokens of the step are processed (`preemptSentBack`). Until then
 * the loop writes its own operations for the native core.
 */
function sendBack(s: SchedulerState, plan: Plan, request: Request): void {
  discardOutputs(s, request);
  if (request.container === 'running') plan.sentBack.push(request);
}

function preemptSentBack(s: SchedulerState, plan: Plan): void {
  for (const request of plan.sentBack) preemptByForce(s, request);
  plan.sentBack.length = 0;
}

/**
 * Whether a request would stop with its tokens now but must not. It was preempted while this step
 * ran, and has to deliver its KV (`requiresKvDelivery`). It has no blocks, or only blocks that a
 * step in flight is still to write. Its tokens are forgotten, and generated again (vLLM #50297).
 */
function mustRecompute(
  s: SchedulerState,
  request: Request,
  tokens: Int32Array,
  from: number,
  end: number,
): boolean {
  const { numTokens, stopReason, checkFrom, forgetStopReason, firstTokenAt } = request;
  let reason: FinishCode = FinishCode.none;
  for (let next = from; next < end && reason === FinishCode.none; next++) {
    request.numTokens++;
    reason = checkStop(request, tokens[next], s.now);
  }
  Object.assign(request, { numTokens, stopReason, checkFrom, forgetStopReason, firstTokenAt });
  return reason !== FinishCode.none && s.connector?.askDelivery(request) === true;
}

/**
 * Shows each grammar the tokens that were appended, including the token that ended a request. A
 * request whose grammar rejects the tokens or fails ends with `error`, whatever reason it had
 * before.
 * @returns not 0 if there was one
 */
function acceptTokens(s: SchedulerState, firstRow: number): number {
  const { requests, tokens, tokenOffsets, tokenCounts, finishReasons, length } = s.outputs;
  let failed = 0;
  for (let row = firstRow; row < length; row++) {
    const request = requests[row];
    if (request.grammar === null) continue;
    const answer = s.grammars.askAccept(request, tokens, tokenOffsets[row], tokenCounts[row]);
    if (answer === 1) continue;
    if (answer === 0) {
      request.failure = 'its grammar did not accept the generated tokens';
      s.counters.grammarRejections++;
    }
    finishReasons[row] = FinishCode.error;
    failed |= FinishCode.error;
  }
  return failed;
}

/**
 * Ends the requests that stopped, in batch order. A session continues if only the answer to a chunk
 * has ended.
 */
function endStopped(s: SchedulerState, firstRow: number): void {
  const { requests, finishReasons, length } = s.outputs;
  let first = -1;
  for (let row = firstRow; row < length; row++) {
    const reason = finishReasons[row] as FinishCode;
    if (reason === FinishCode.none) continue;
    const request = requests[row];
    if (first < 0) first = row - firstRow;
    if (reason !== FinishCode.error && continueSession(s, request)) s.outputs.markContinued(row);
    else finishDetached(s, request, reason);
  }
  // Without steps in flight the rows are in the order of `running`, so the first stopped request is
  // no further in front.
  s.queues.dropDetached(s.pipelined ? 0 : first);
}

/**
 * Takes back the draft tokens that were counted as computed and were rejected. A preempted request
 * that is not admitted again has no computed tokens to correct. A request that was admitted again
 * since did not compute these drafts. vLLM subtracts them nevertheless, and the deviation
 * `keepRecomputed` does not.
 */
function rejectDrafts(s: SchedulerState, plan: Plan, entry: number, numTokens: number): void {
  const request = plan.requests[entry];
  const numDrafts = plan.numDraftTokens[entry];
  const accepted = numTokens - 1;
  const rejected = numDrafts - accepted;
  const { keepRecomputed } = s.config.deviations;
  if (request.numOutputPlaceholders > 0) request.numOutputPlaceholders -= rejected;
  if (request.admittedStep <= plan.step) {
    if (request.numComputedTokens > 0) request.numComputedTokens -= rejected;
  } else if (keepRecomputed) rejectForeseen(request, numTokens);
  // vLLM may count below 0 here, so that positions are computed that do not exist.
  else request.numComputedTokens = Math.max(0, request.numComputedTokens - rejected);
  s.counters.specDrafts++;
  s.counters.specDraftTokens += numDrafts;
  s.counters.specAcceptedTokens += accepted;
}

/**
 * Corrects the computed tokens of a request that was preempted and admitted again since (only at
 * `pipelineDepth` 3). It did not compute these drafts. But a plan made after its new admission may
 * have scheduled tokens at the positions that the drafts would have filled. These tokens count as
 * not computed. If no entry would then be left to sample from, the last token is computed again.
 * @param numTokens tokens of this step
 */
function rejectForeseen(request: Request, numTokens: number): void {
  const known = request.numTokens + numTokens;
  const samples = request.numOutputPlaceholders > numTokens;
  request.numComputedTokens = Math.min(request.numComputedTokens, samples ? known : known - 1);
}

/**
 * Turns placeholders into tokens that have arrived. Blocks that those tokens fill can be published now; the schedule
 * that computed the blocks did not know the tokens yet.
 */
function settlePlaceholders(s: SchedulerState, plan: Plan, request: Request, arrived: number): void {
  request.placeholdersBase -= arrived;
  if (request.container !== 'running') return;
  const settled = request.computedBase - request.placeholdersBase;
  if (settled >= request.nextPublish && s.config.enablePrefixCaching) plan.settled.push(request);
}

/**
 * The number of tokens at whose multiples a block may be published: a drafter's block after a hit
 * ends between those of all groups.
 */
function publishedAt(
  { alignment, hashBlockSize, list }: KvGroups,
  retention: VersionRules['retention'],
): number {
  return retention !== 'all' && list.some(({ eagle }) => eagle) ? hashBlockSize : alignment;
}

/**
 * Publishes the blocks that `settlePlaceholders` found, in batch order. No operation in between
 * changed their token counts.
 */
function publishSettled(s: SchedulerState, plan: Plan): void {
  const { blockSize, kvGroups, retention } = s.config;
  // With several groups, blocks are published where blocks of all groups end.
  const size = kvGroups === null ? blockSize : publishedAt(kvGroups, retention);
  for (const request of plan.settled) {
    const settled = request.numComputedTokens - request.numOutputPlaceholders;
    s.core.push(PendingOp.publish, request.slot, settled);
    request.nextPublish = (Math.floor(settled / size) + 1) * size;
  }
  if (plan.settled.length > 0) plan.settled.length = 0;
}
