import { Control, PendingOp } from '../../core/core.js';
import { continueSession } from '../life/chunks.js';
import { finishDetached } from '../life/finish.js';
import { discardOutputs, preemptByForce } from '../life/preempt.js';
import type { Plan } from '../plan/plan.js';
import type { TakenResult } from '../plan/step-result.js';
import type { Request } from '../request/request.js';
import { FinishCode } from '../request/status.js';
import { checkStop } from '../request/stop-conditions.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/** The first word of a queued append, less its slot. */
const APPEND = PendingOp.append << 24;

/**
 * vLLM's `update_from_output`: appends the sampled tokens, stops what is to be stopped and fills `s.outputs`.
 *
 * All tokens of the step are queued for the native core first, then what depends on them: publications, and the ends of
 * requests in batch order. They cross into native code with the next schedule.
 */
export function updatePass(s: SchedulerState, plan: Plan, result: TakenResult): void {
  const { tokens, counts, numTokens } = result;
  const { maxDrafts, now } = s;
  const pipelined = s.pipelined === true;
  const delivers =
    s.config.deviations.finalTokenDelivery && s.connector?.methods.requiresKvDelivery !== undefined;
  const { requests, numRequests, dropped, numDraftTokens } = plan;
  const { requests: rowRequests, tokenOffsets, tokenCounts, finishReasons } = s.outputs;
  const { control, pending } = s.core;
  s.core.reserve(numTokens);
  const firstRow = s.outputs.length;
  let row = firstRow;
  let cursor = 2 * control[Control.numPending];
  const goesOn = FinishCode.none;
  let stopped = 0;
  let end = 0;
  for (let i = 0; i < numRequests; i++) {
    const request = requests[i];
    const from = end;
    end += counts[i];
    // Get and skip: the request was aborted, or reset, while this step ran.
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
    if (maxDrafts > 0 && numDraftTokens[i] > 0) rejectDrafts(s, plan, i, end - from);

    const append = APPEND | request.slot;
    let known = request.numTokens;
    let next = from;
    let reason: FinishCode = goesOn;
    do {
      const token = tokens[next++];
      request.numTokens = ++known;
      pending[cursor] = append;
      pending[cursor + 1] = token;
      cursor += 2;
      if (token === request.eosTokenId || known >= request.checkFrom) reason = checkStop(request, token, now);
    } while (next < end && reason === goesOn);
    if (pipelined) settlePlaceholders(s, plan, request, next - from);
    stopped |= reason;
    if (rowRequests[row] !== request) rowRequests[row] = request;
    tokenOffsets[row] = from;
    tokenCounts[row] = next - from;
    finishReasons[row++] = reason;
  }
  s.outputs.length = row;
  s.counters.generationTokens += (cursor >> 1) - control[Control.numPending];
  control[Control.numPending] = cursor >> 1;
  publishSettled(s, plan);
  if (plan.sentBack.length > 0) preemptSentBack(s, plan);
  // As in vLLM drafts that a grammar refused were not proposed.
  s.counters.specDraftTokens -= plan.numInvalidDrafts;
  if (s.structured.size > 0) stopped |= acceptTokens(s, firstRow);
  if (stopped !== 0) endStopped(s, firstRow);
}

/** Whether a request has lost the blocks that this step computed: it was preempted since, and may have been admitted again. */
function hasLost({ container, admittedStep }: Request, plan: Plan): boolean {
  return container !== 'running' || admittedStep > plan.step;
}

/**
 * What the steps in flight bring for a request that must be computed again is void. One that runs again gives its blocks back
 * when the tokens of the step are taken, since operations for the native side are being written until then.
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
 * Whether a request that was preempted while this step ran would stop with it, and must not: it has no blocks to deliver, or
 * only such as a step in flight is still to write. What it would have said is forgotten, and said again (vLLM #50297).
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
 * Shows the grammars what was appended, also what ended a request. One that does not take it ends with `error`, whatever
 * else it ended with.
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
      request.failure = 'its grammar did not accept what was generated';
      s.counters.grammarRejections++;
    }
    finishReasons[row] = FinishCode.error;
    failed |= FinishCode.error;
  }
  return failed;
}

/** Ends what stopped, in batch order. A session goes on when only the answer to a chunk ended. */
function endStopped(s: SchedulerState, firstRow: number): void {
  const { requests, finishReasons, length } = s.outputs;
  for (let row = firstRow; row < length; row++) {
    const reason = finishReasons[row] as FinishCode;
    const request = requests[row];
    if (reason === FinishCode.none) continue;
    if (reason !== FinishCode.error && continueSession(s, request)) s.outputs.markContinued(row);
    else finishDetached(s, request, reason);
  }
  s.queues.dropDetached();
}

/**
 * Takes back the drafts that were counted as computed and were not accepted. A request that was preempted meanwhile starts
 * again anyway; one that has started again by now computed none of them, but vLLM takes them from it all the same
 * (`keepRecomputed`).
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
  // vLLM may count below 0 here, and has positions computed that there are not.
  else request.numComputedTokens = Math.max(0, request.numComputedTokens - rejected);
  s.counters.specDrafts++;
  s.counters.specDraftTokens += numDrafts;
  s.counters.specAcceptedTokens += accepted;
}

/**
 * The same for a request that was preempted and admitted again since (`pipelineDepth` 3): it did not compute these drafts,
 * but a plan of its new residency may have gone on to the tokens that they might have become. Those it has not computed;
 * and where it would sample from none of what is left, the last token is computed again, to be sampled from.
 */
function rejectForeseen(request: Request, numTokens: number): void {
  const known = request.numTokens + numTokens;
  const samples = request.numOutputPlaceholders > numTokens;
  request.numComputedTokens = Math.min(request.numComputedTokens, samples ? known : known - 1);
}

/**
 * Tokens that arrived are placeholders no more; and the blocks that they filled can be published now, since the schedule
 * that computed them did not know them yet.
 */
function settlePlaceholders(s: SchedulerState, plan: Plan, request: Request, arrived: number): void {
  request.numOutputPlaceholders -= arrived;
  if (request.container !== 'running') return;
  const settled = request.numComputedTokens - request.numOutputPlaceholders;
  if (settled >= request.nextPublish && s.config.enablePrefixCaching) plan.settled.push(request);
}

/** Publishes what `settlePlaceholders` found, in batch order. Nothing that happened since moved their counts. */
function publishSettled(s: SchedulerState, plan: Plan): void {
  const { blockSize } = s.config;
  for (const request of plan.settled) {
    const settled = request.numComputedTokens - request.numOutputPlaceholders;
    s.core.push(PendingOp.publish, request.slot, settled);
    request.nextPublish = (Math.floor(settled / blockSize) + 1) * blockSize;
  }
  plan.settled.length = 0;
}
