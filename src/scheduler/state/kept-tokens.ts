import type { Request } from '../request/request.js';
import type { SchedulerState } from './scheduler-state.js';

/**
 * Stands before whatever takes a request's tokens away: its end, or another chunk of its session. Plans with the request that
 * are still to be executed get a copy, since their executor may read the tokens of every entry. Nothing for other plans.
 */
export function keepTokens(s: SchedulerState, request: Request): void {
  for (const plan of s.inFlight) {
    const { keptTokens } = plan;
    if (keptTokens === null || keptTokens.has(request) || plan.indexOf(request) < 0) continue;
    keptTokens.set(request, s.core.tokens(request.slot));
  }
}
