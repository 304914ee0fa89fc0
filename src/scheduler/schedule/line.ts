// The next request in line: skips, promotes or ends requests at its head.
import { endUnreported } from '../life/finish.js';
import { endLoading } from '../life/loading.js';
import { endGrammarWait } from '../life/wait-for-grammar.js';
import type { Plan } from '../plan/plan.js';
import type { Request } from '../request/request.js';
import { FinishCode, isBlocked } from '../request/status.js';
import { dropZombie } from '../state/guards.js';
import type { RequestQueue } from '../state/request-queue.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/**
 * Passes over, ends or promotes requests at the head of the line until the head can be admitted.
 * @returns the queue whose head that request is; null if this step admits no more requests
 */
export function nextInLine(s: SchedulerState, plan: Plan, tokenBudget: number): RequestQueue | null {
  const { queues } = s;
  while (tokensLeft(s, plan, tokenBudget) > 0 && freeSeats(s) > 0) {
    const queue = queues.nextQueue();
    const request = queue?.peek();
    if (queue == null || request == null) return null;
    if (dropZombie(s, queue, request)) continue;
    if (isBlocked(request.status) && !promote(s, request)) {
      if (!request.isFinished) queues.passOver(queue, request);
      continue;
    }
    if (awaitsOutputs(s, request)) {
      queues.passOver(queue, request);
      continue;
    }
    request.waitsForAdapter = !s.adapters.fits(plan, request, queues);
    if (request.waitsForAdapter) {
      queues.passOver(queue, request);
      continue;
    }
    if (!outgrows(s, request)) return queue;
    if (!endOutgrown(s, request)) return null;
  }
  return null;
}

/** The number of requests that `maxNumSeqs` still allows; see the rule `sessionSeats`. */
export function freeSeats({ queues, config }: SchedulerState): number {
  const idle = config.sessionSeats === 'withIdle' ? queues.idle.size : 0;
  return config.maxNumSeqs - queues.numLentRunning - queues.running.length - idle;
}

/**
 * Whether a request must wait for outputs of steps in flight, because it was preempted since they
 * were scheduled (`preemptedOutputs`).
 */
export function awaitsOutputs({ inFlight, config }: SchedulerState, request: Request): boolean {
  if (config.preemptedOutputs !== 'await' || request.numPreemptions === 0) return false;
  return inFlight.some((plan) => {
    const at = plan.indexOf(request);
    return at >= 0 && plan.dropped[at] === 0;
  });
}

/** Whether a request has more tokens than the pool can hold, or leaves no room for output in the model. */
export function outgrows(s: SchedulerState, request: Request): boolean {
  return request.numTokens > s.slotLimit || isFull(s, request);
}

/**
 * Whether a session has so many tokens that no output for its next chunk fits into the model. `add`
 * refuses such a prompt.
 */
function isFull({ config }: SchedulerState, { session, numTokens }: Request): boolean {
  return session !== null && config.deviations.refuseUnfit && numTokens >= config.maxModelLen;
}

/**
 * Ends the wait of a blocked request if the awaited event has happened; it may then be admitted in
 * the same pass. A session that waits for input is in no queue of this pass.
 * @returns false if the request is still blocked, or ended because its grammar failed
 */
function promote(s: SchedulerState, request: Request): boolean {
  if (request.status === 'WAITING_FOR_REMOTE_KVS') return endLoading(s, request);
  return request.status === 'WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR' && endGrammarWait(s, request);
}

/**
 * Tokens that the next entry of a plan may get; none if it is 0 or less. Each entry costs its tokens and the slots that its drafter needs
 * (`draftSlots`).
 * @param tokenBudget limit of `plan.totalTokens`
 */
export function tokensLeft({ config }: SchedulerState, plan: Plan, tokenBudget: number): number {
  return tokenBudget - plan.totalTokens - config.draftSlots * (plan.numRequests + 1);
}

/**
 * Ends a request that has outgrown the pool or the model, as soon as no step in flight can still
 * produce tokens for it. The reason is `length`, or `error` if a borrowing adapter has failed the
 * request in this very plan. Its terminal row is published with the next update.
 * @returns whether it ended now
 */
export function endOutgrown(s: SchedulerState, request: Request): boolean {
  if (request.numOutputPlaceholders > 0) return false;
  endUnreported(s, request, s.doomed.includes(request) ? FinishCode.error : FinishCode.length);
  return true;
}
