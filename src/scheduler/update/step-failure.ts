// Ends the requests of entries that failed.
import { kvExtent } from '../connector/kv-extent.js';
import { finish } from '../life/finish.js';
import { dropOutputs } from '../life/preempt.js';
import { evictRow, forgetSince, recomputeSharers, someSharerLeft } from '../loads/bad-blocks.js';
import { holdsSince } from '../loads/lost-places.js';
import type { Plan } from '../plan/plan.js';
import type { Request } from '../request/request.js';
import { FinishCode } from '../request/status.js';
import type { SchedulerState } from '../state/scheduler-state.js';

const NOBODY: ReadonlySet<Request> = new Set();

/**
 * Ends with `error` the requests of the entries that failed, each with its row in the outputs. The
 * blocks that the step published for them were never written, so they lose their hashes. Requests
 * that share them already are preempted and computed again. Outputs that later steps in flight
 * bring for either are dropped. The prefix cache is cleaned only with the deviation
 * `evictOnStepFailure`.
 * @param failed whether the entry of this index failed
 * @returns the requests of the failed entries
 */
export function failEntries(
  s: SchedulerState,
  plan: Plan,
  failed: (entry: number) => boolean,
): ReadonlySet<Request> {
  const bad = new Set<number>();
  const ended = new Set<Request>();
  let traceless = false;
  for (let i = 0; i < plan.numRequests; i++) {
    if (!failed(i)) continue;
    const request = plan.requests[i];
    ended.add(request);
    if (!holdsSince(request, plan.step)) traceless = true;
    else if (s.config.deviations.evictOnStepFailure) {
      evictRow(s, request, firstUnsure(plan, i), bad);
    }
    if (plan.dropped[i] !== 0) continue;
    voidStep(s, plan, request);
    if (finish(s, request, FinishCode.error)) s.outputs.push(request, 0, 0, FinishCode.error);
  }
  if (ended.size === 0 || !s.config.deviations.evictOnStepFailure) return ended;
  if (traceless || someSharerLeft(s, plan, ended)) forgetSince(s, plan, NOBODY);
  else if (bad.size > 0) recomputeSharers(s, plan, bad, NOBODY);
  return ended;
}

/**
 * Undoes the tokens that this plan, and the plans in flight after it, were to compute for a
 * request. The request leaves only the tokens that were settled before, and the notification of its
 * end says so.
 */
function voidStep(s: SchedulerState, plan: Plan, request: Request): void {
  request.numComputedTokens = kvExtent(s, request).numSettledTokens;
  dropOutputs(s, request, plan);
}

/**
 * Index of the first token of an entry whose KV a failed step may not have written. A synchronous
 * load counts as missing too, because it is unknown whether the step waited for it.
 */
function firstUnsure(plan: Plan, entry: number): number {
  const load = plan.syncLoads.find(({ request }) => request === plan.requests[entry]);
  return load?.localTokens ?? plan.numComputedTokens[entry];
}
