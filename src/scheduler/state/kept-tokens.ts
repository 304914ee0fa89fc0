// Keeps the tokens of a request for plans that are still to be executed.
import type { Request } from '../request/request.js';
import type { SchedulerState } from './scheduler-state.js';

/**
 * Copies a request's tokens into the plans that contain the request and are still to be executed.
 * Their executor may read the tokens of every entry. Must be called before a request loses its
 * tokens, by its end or by another chunk of its session. Other plans get no copy.
 */
export function keepTokens(s: SchedulerState, request: Request): void {
  for (const plan of s.inFlight) {
    const { keptTokens } = plan;
    if (keptTokens === null || keptTokens.has(request) || plan.indexOf(request) < 0) continue;
    keptTokens.set(request, s.core.tokens(request.slot));
  }
}
