import { BlockstepError } from '../../base/errors.js';
import type { EngineState } from '../state/engine-state.js';
import type { QueueBounds } from '../state/options.js';

/** Whether `maxQueuedRequests` or `maxQueuedTokens` bounds the queue. */
export function hasBounds({ maxQueuedRequests, maxQueuedTokens }: QueueBounds): boolean {
  return Math.min(maxQueuedRequests, maxQueuedTokens) < Number.POSITIVE_INFINITY;
}

/**
 * Whether one more request of `numTokens` prompt tokens leaves the queue at most half full. An
 * empty queue accepts any prompt.
 */
export function hasHalfRoom(e: EngineState, numTokens: number): boolean {
  const { maxQueuedRequests, maxQueuedTokens } = e.config;
  const { requests, tokens } = e.scheduler.backlog;
  return (
    requests === 0 || (requests + 1 <= maxQueuedRequests / 2 && tokens + numTokens <= maxQueuedTokens / 2)
  );
}

/**
 * Refuses a request if the queue has no room for it. The request's fields were checked before.
 * @param numTokens tokens of the prompt
 * @throws ERR_BLOCKSTEP_OVERLOADED with `retryAfterMs`; ERR_BLOCKSTEP_UNFIT if it is too long even for an empty queue
 */
export function checkRoom(e: EngineState, numTokens: number): void {
  const { maxQueuedRequests, maxQueuedTokens } = e.config;
  const { backlog } = e.scheduler;
  const requestsOver = backlog.requests + 1 - maxQueuedRequests;
  const tokensOver = backlog.tokens + numTokens - maxQueuedTokens;
  if (requestsOver <= 0 && tokensOver <= 0) return;
  if (numTokens > maxQueuedTokens)
    throw new BlockstepError(
      'ERR_BLOCKSTEP_UNFIT',
      `a prompt of ${numTokens} tokens is never let in: maxQueuedTokens is ${maxQueuedTokens}`,
    );
  e.counters.overloads++;
  const why =
    requestsOver > 0
      ? `${backlog.requests} requests wait to be admitted, the most that maxQueuedRequests allows`
      : `the prompts that wait to be admitted have ${backlog.tokens} tokens, and maxQueuedTokens is ${maxQueuedTokens}: there is no room for ${numTokens} more`;
  const retryAfterMs = backlog.msToAdmit(Math.max(0, requestsOver), Math.max(0, tokensOver), e.now());
  const when = retryAfterMs === null ? '' : `; try again in ${retryAfterMs} ms`;
  throw new BlockstepError('ERR_BLOCKSTEP_OVERLOADED', why + when, { retryAfterMs });
}
