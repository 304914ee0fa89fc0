import { discardOutputs, dropOutputs } from '../life/preempt.js';
import type { Plan } from '../plan/plan.js';
import type { Request } from '../request/request.js';
import { forgetBlocks } from '../state/forget.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import {
  forgetFrom,
  forgetSince,
  leftSince,
  recomputeSharers,
  spoilEntries,
  withBuilt,
} from './bad-blocks.js';
import { firstTokenIn, kvIn, takenFrom, tokensKept } from './lost-places.js';

const NOBODY: ReadonlySet<Request> = new Set();
const NONE: readonly Request[] = [];

/**
 * Processes the report that the KV of these blocks is gone, whichever request wrote it. The blocks
 * leave the prefix cache. Each request that holds one, or KV computed from one, is computed again
 * from there on, or must end with
 * `error`; `loadFailurePolicy` decides. Its outputs of the plan being updated and of steps in
 * flight are dropped, because they were computed without that KV.
 *
 * A block that a plan after the one being updated took from the pool holds newer KV. Only a request
 * that has dropped such a block since, and had read it, is computed again.
 * @param plan the plan being updated; null outside an update
 * @returns the requests that the caller must end
 */
export function loseBlocks(
  s: SchedulerState,
  plan: Plan | null,
  lost: readonly number[],
): readonly Request[] {
  if (lost.length === 0) return NONE;
  const bad = new Set<number>();
  for (const id of lost) {
    if (id >= 1 && id < s.config.numBlocks) bad.add(id);
    else s.anomalies.report('invalid-block', `block ${id} is none of the pool, so it cannot be lost`);
  }
  if (bad.size === 0) return NONE;
  if (plan !== null) nameTaken(s, plan, bad);
  s.core.flush();
  forgetBlocks(s, Int32Array.from([...bad].filter((id) => id > 0)));
  s.blocksMoved = true;
  // The oldest step that may have been computed without that KV.
  const oldest = plan ?? s.inFlight.at(0) ?? null;
  // Any of these requests may have held a lost block.
  const left = oldest === null ? NONE : leftSince(s, oldest);
  let ends = NONE;
  if (s.config.loadFailurePolicy === 'recompute') recomputeSharers(s, oldest, bad, NOBODY);
  else {
    const all = withBuilt(s, oldest, bad, NOBODY);
    ends = [...s.requests.values()].filter((request) => firstTokenIn(s, request, all) >= 0);
    for (const request of ends) giveUp(s, oldest, request, firstTokenIn(s, request, all));
  }
  if (oldest !== null && left.length > 0) forgetLeft(s, oldest, left);
  return ends;
}

/**
 * Adds to `bad` the KV that the blocks held when the plan was made. Newer KV in them is good, and
 * requests that read them before have read the lost KV. Blocks that no request holds are forgotten.
 */
function nameTaken(s: SchedulerState, { step }: Plan, bad: Set<number>): void {
  const taken = takenFrom(s, step + 1);
  const gone = s.letGoSince(step + 1);
  for (const id of [...bad]) {
    const before = gone.find(({ block, generation }) => block === id && !taken.has(kvIn(s, id, generation)));
    if (before === undefined && !taken.has(id)) continue;
    bad.delete(id);
    if (before !== undefined) bad.add(kvIn(s, id, before.generation));
  }
}

/**
 * Handles requests that freed their row meanwhile. Blocks that they computed from lost ones can
 * still be found in the prefix cache and are wrong, so the whole cache is forgotten. Outputs in
 * flight of a request that was preempted since are dropped, because no row shows any more whether
 * it held a lost block.
 */
function forgetLeft(s: SchedulerState, oldest: Plan, left: readonly Request[]): void {
  for (const request of left) {
    spoilEntries(s, oldest, request);
    // A request that runs again was admitted since, and `forgetSince` preempts it.
    if (!request.isFinished && request.container !== 'running') discardOutputs(s, request, oldest);
  }
  forgetSince(s, oldest, NOBODY);
}

/** Prepares a request with a lost block for its end under the policy `fail`. */
function giveUp(s: SchedulerState, oldest: Plan | null, request: Request, firstBad: number): void {
  forgetFrom(s, request, firstBad);
  // Tokens after the lost block were computed from it, and no longer count.
  request.numComputedTokens = Math.min(request.numComputedTokens, tokensKept(s, request, firstBad));
  dropOutputs(s, request, oldest ?? undefined);
  request.failure ??= 'cannot go on: the executor lost a block of its KV';
}
