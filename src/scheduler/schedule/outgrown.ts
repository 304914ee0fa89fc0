import { endUnreported } from '../life/finish.js';
import type { Request } from '../request/request.js';
import { FinishCode } from '../request/status.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/**
 * Ends with `length` a request that has outgrown the pool or the model, as soon as no step in flight can still bring
 * tokens for it; with `error` if a borrowing adapter has failed it in this very plan. Its terminal row goes out with
 * the next update.
 * @returns whether it ended now
 */
export function endOutgrown(s: SchedulerState, request: Request): boolean {
  if (request.numOutputPlaceholders > 0) return false;
  endUnreported(s, request, s.doomed.includes(request) ? FinishCode.error : FinishCode.length);
  return true;
}
