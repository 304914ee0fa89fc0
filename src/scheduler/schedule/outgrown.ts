import { endUnreported } from '../life/finish.js';
import type { Request } from '../request/request.js';
import { FinishCode } from '../request/status.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/**
 * Ends a request that needs more blocks than the whole pool has, once no step in flight can bring anything for it. Its
 * terminal row goes out with the next update.
 * @returns whether it ended now
 */
export function endOutgrown(s: SchedulerState, request: Request): boolean {
  if (request.numOutputPlaceholders > 0) return false;
  endUnreported(s, request, FinishCode.length);
  return true;
}
