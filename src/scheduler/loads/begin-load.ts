import { rowsOf } from '../../core/rows.js';
import { reportersOf } from '../connector/ask-connector.js';
import type { ParsedMatch } from '../connector/connector-answers.js';
import { startDeadline } from '../life/deadlines.js';
import { endUnreported } from '../life/finish.js';
import type { Plan } from '../plan/plan.js';
import type { Load } from '../request/load.js';
import { peer } from '../request/outstanding.js';
import type { Request } from '../request/request.js';
import { FinishCode } from '../request/status.js';
import { forgetRow } from '../state/forget.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/**
 * Tells the connector of an admission (vLLM `update_state_after_alloc`), and notes the tokens that
 * the connector will load. An asynchronous load makes the request wait. A synchronous load is read
 * by the step itself and is listed in
 * `plan.syncLoads`.
 * @param localTokens tokens before the load that the local prefix cache had
 * @returns false if the connector failed, and the request ended with it
 */
export function beginLoad(
  s: SchedulerState,
  plan: Plan,
  request: Request,
  match: ParsedMatch,
  localTokens: number,
): boolean {
  const numExternal = match.numTokens ?? 0;
  const rows = rowsOf(s.core, request.slot);
  // These are copies, so that a connector's changes to its lists do not affect the rows.
  if (
    s.connector?.tellAllocated(
      request,
      rows.map((row) => row.slice()),
      numExternal,
    ) === false
  ) {
    // The blocks were published when they were taken, and no step will compute them.
    forgetRow(s, request.slot, localTokens);
    endUnreported(s, request, FinishCode.error);
    return false;
  }
  request.numExternalTokens = numExternal;
  if (numExternal === 0) return true;
  const sizes = s.groups.list.map((group) => group.blockSize);
  const loaded = rows.map((row, g) =>
    row.subarray(Math.floor(localTokens / sizes[g]), Math.ceil((localTokens + numExternal) / sizes[g])),
  );
  const blocks = Int32Array.from(loaded.flatMap((ids) => [...ids].filter((id) => id !== 0)));
  const load: Load = {
    ...{ child: match.child, step: plan.step, localTokens, numTokens: numExternal, blocks, failed: false },
  };
  if (match.async) {
    plan.loadedBlocks.push(blocks);
    startLoading(s, request, load);
  } else {
    const generations = Array.from(blocks, (id) => s.core.native.blockGeneration(id));
    const isFirst = request.firstScheduledAt < 0;
    plan.syncLoads.push({ ...load, request, isFirst, numLoaded: numExternal, generations });
  }
  return true;
}

/**
 * Makes the request wait until every rank of the child has reported its load. `numComputedTokens` already counts the
 * tokens to be loaded, as in vLLM.
 */
function startLoading(s: SchedulerState, request: Request, load: Load): void {
  for (const rank of reportersOf(s, load.child)) s.addUse(request, 'load', peer(load.child, rank));
  request.load = load;
  request.loadStep = load.step;
  request.status = 'WAITING_FOR_REMOTE_KVS';
  request.waitingSince = s.now;
  request.admittedStep = load.step;
  s.withLoad.add(request);
  s.blocksMoved = true;
  startDeadline(s, request, s.config.deadlines.load);
}
