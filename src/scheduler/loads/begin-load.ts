import { PendingOp } from '../../core/core.js';
import { type TakenMatch, tellAllocated } from '../connector/ask-connector.js';
import { startDeadline } from '../life/expiry.js';
import { endUnreported } from '../life/finish.js';
import { giveBlocksBack } from '../life/preempt.js';
import type { Plan } from '../plan/plan.js';
import { isLoading, type Load, leaveLoading, reportersOf } from '../request/load.js';
import { addUse, peer } from '../request/outstanding.js';
import type { Request } from '../request/request.js';
import { FinishCode } from '../request/status.js';
import { forgetRow } from '../state/forget.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/**
 * Tells the connector of an admission, and notes what it will bring.
 * @returns false if the connector failed, and the request ended with it
 */
export function beginLoad(
  s: SchedulerState,
  plan: Plan,
  request: Request,
  match: TakenMatch,
  localTokens: number,
): boolean {
  const numExternal = match.numTokens ?? 0;
  const held = s.core.blocks(request.slot);
  // Lent: what a connector does to its list must not change this one.
  if (!tellAllocated(s, request, [held.slice()], numExternal)) {
    // It was published when its blocks were taken, and nobody will compute it.
    forgetRow(s, request.slot, Math.floor(localTokens / s.config.blockSize));
    endUnreported(s, request, FinishCode.error);
    return false;
  }
  request.numExternalTokens = numExternal;
  if (numExternal === 0) return true;
  const { blockSize } = s.config;
  const first = Math.floor(localTokens / blockSize);
  const blocks = held.slice(first, Math.ceil((localTokens + numExternal) / blockSize));
  const load: Load = { child: match.child, step: plan.step, localTokens, blocks, failed: false };
  if (match.async) {
    plan.loadedBlocks.push(blocks);
    startLoading(s, request, load);
  } else {
    const generations = Array.from(blocks, (id) => s.core.native.blockGeneration(id));
    plan.syncLoads.push({ ...load, request, generations });
  }
  return true;
}

/** The request waits until every rank of the child has reported. Its computed tokens count what is to come (as in vLLM). */
function startLoading(s: SchedulerState, request: Request, load: Load): void {
  for (const rank of reportersOf(s, load.child)) addUse(s, request, 'load', peer(load.child, rank));
  request.load = load;
  request.loadStep = load.step;
  request.status = 'WAITING_FOR_REMOTE_KVS';
  request.waitingSince = s.now;
  request.admittedStep = load.step;
  s.loading.add(request);
  s.blocksMoved = true;
  startDeadline(s, request, s.config.deadlines.load);
}

/**
 * Ends the wait for a load that is done (vLLM `_update_waiting_for_remote_kv`): what is good of it can be found from now
 * on, and not earlier. Where nothing is good the blocks go back, so that the next lookup may find local ones. One token is
 * always left to be computed, to sample from.
 * @returns false if it is not done
 */
export function endLoading(s: SchedulerState, request: Request): boolean {
  if (isLoading(request)) return false;
  if (request.numComputedTokens === 0) giveBlocksBack(s, request);
  else if (s.config.enablePrefixCaching) {
    s.core.push(PendingOp.publish, request.slot, request.numComputedTokens);
  }
  if (request.numComputedTokens === request.numTokens) request.numComputedTokens--;
  leaveLoading(s, request);
  request.status = request.numPreemptions > 0 ? 'PREEMPTED' : 'WAITING';
  request.waitingSince = s.now;
  return true;
}
