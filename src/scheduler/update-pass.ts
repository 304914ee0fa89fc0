import { PendingOp } from '../core/core.js';
import { finishDetached } from './finish.js';
import type { Plan } from './plan.js';
import { checkStop, type Request } from './request.js';
import type { SchedulerState } from './scheduler-state.js';
import { FinishReason } from './status.js';

/** What the executor brings back for one plan, in plan order. */
export interface StepResult {
  /** Sampled tokens of all entries, one after the other. */
  tokens: Int32Array;
  /** Tokens of each entry: 0 while its prompt is not computed, else accepted drafts + 1. */
  counts: Int32Array;
  /** Non-zero: this entry failed. Its request ends with `error`. */
  errors?: Uint8Array;
}

/**
 * vLLM's `update_from_output`: appends the sampled tokens, stops what is to be stopped and fills `s.outputs`.
 * Appending and publishing are queued and cross into native code with the next schedule.
 */
export function updatePass(s: SchedulerState, plan: Plan, result: StepResult): void {
  const { tokens, counts } = result;
  const { outputs } = s;
  let stopped = false;
  let offset = 0;
  for (let i = 0; i < plan.numRequests; i++) {
    const request = plan.requests[i];
    const count = counts[i];
    const from = offset;
    offset += count;
    // Get and skip: the request was aborted, or reset, while this step ran.
    if (request.finishReason !== FinishReason.none || plan.dropped[i] !== 0) {
      s.counters.droppedOutputs++;
      continue;
    }
    if (count === 0) continue;
    if (s.maxDrafts > 0 && plan.numDraftTokens[i] > 0)
      rejectDrafts(s, request, plan.numDraftTokens[i], count);

    const { slot } = request;
    let kept = 0;
    let reason: FinishReason = FinishReason.none;
    do {
      const token = tokens[from + kept++];
      request.numTokens++;
      s.core.push(PendingOp.append, slot, token);
      reason = checkStop(request, token);
    } while (kept < count && reason === FinishReason.none);
    s.counters.generationTokens += kept;
    if (request.firstTokenAt < 0) request.firstTokenAt = s.now;
    if (s.pipelined) settlePlaceholders(s, request, kept);
    if (reason !== FinishReason.none) {
      finishDetached(s, request, reason);
      stopped = true;
    }
    outputs.push(request, from, kept, reason);
  }
  if (stopped) s.queues.sweepRunning();
}

/** Takes back the drafts that were counted as computed and were not accepted. A preempted request starts again anyway. */
function rejectDrafts(s: SchedulerState, request: Request, numDrafts: number, numTokens: number): void {
  const accepted = numTokens - 1;
  const rejected = numDrafts - accepted;
  if (request.numComputedTokens > 0) request.numComputedTokens -= rejected;
  if (request.numOutputPlaceholders > 0) request.numOutputPlaceholders -= rejected;
  s.counters.specDrafts++;
  s.counters.specDraftTokens += numDrafts;
  s.counters.specAcceptedTokens += accepted;
}

/**
 * Tokens that arrived are placeholders no more; and the blocks that they filled can be published now, since the schedule
 * that computed them did not know them yet.
 */
function settlePlaceholders(s: SchedulerState, request: Request, arrived: number): void {
  request.numOutputPlaceholders -= arrived;
  if (request.container !== 'running') return;
  const settled = request.numComputedTokens - request.numOutputPlaceholders;
  if (settled < request.nextPublish || !s.config.enablePrefixCaching) return;
  const { blockSize } = s.config;
  s.core.push(PendingOp.publish, request.slot, settled);
  request.nextPublish = (Math.floor(settled / blockSize) + 1) * blockSize;
}
