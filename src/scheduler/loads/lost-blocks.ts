import { discardOutputs, dropOutputs } from '../life/preempt.js';
import { newBlocksOf } from '../plan/new-blocks.js';
import type { Plan } from '../plan/plan.js';
import type { Request } from '../request/request.js';
import { forgetBlocks, forgetRow } from '../state/forget.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { forgetSince, holdsSince, leftSince, recomputeSharers, spoilEntries } from './bad-blocks.js';

const NOBODY: ReadonlySet<Request> = new Set();
const NONE: readonly Request[] = [];

/**
 * Takes that the KV of these blocks is gone, whoever wrote it. Nobody finds them any more. Whoever holds one of them is
 * computed again from the first of them on, or is to end with `error`, as `loadFailurePolicy` says; what the step being
 * updated and those in flight bring for it was computed without that KV, and is dropped. A block that a plan behind the one being
 * updated has given to somebody is not meant.
 * @param plan the one being updated; null outside of an update
 * @returns the requests that are to end
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
  for (const id of takenSince(s, plan)) bad.delete(id);
  if (bad.size === 0) return NONE;
  s.core.flush();
  forgetBlocks(s, Int32Array.from(bad));
  s.blocksMoved = true;
  // The first of the steps that may have been computed without that KV.
  const oldest = plan ?? s.inFlight.at(0) ?? null;
  // Any of them may have held a lost block.
  const left = oldest === null ? NONE : leftSince(s, oldest);
  const holders = [...s.requests.values()].filter((request) => firstOf(s, request, bad) >= 0);
  const ends = s.config.loadFailurePolicy === 'fail';
  if (ends) for (const request of holders) giveUp(s, oldest, request, firstOf(s, request, bad));
  else recomputeSharers(s, oldest, bad, NOBODY);
  if (oldest !== null && left.length > 0) forgetLeft(s, oldest, left);
  return ends ? holders : NONE;
}

/** Blocks that were given out behind the step: what they hold now is not what was lost, but what their new owners compute. */
function takenSince(s: SchedulerState, plan: Plan | null): Set<number> {
  const taken = new Set<number>();
  if (plan === null) return taken;
  for (const each of s.inFlight) {
    if (each.step <= plan.step) continue;
    for (let i = 0; i < each.numRequests; i++) {
      if (!holdsSince(each.requests[i], each.step)) continue;
      for (const id of newBlocksOf(s.core, each, i)) taken.add(id);
    }
    for (const blocks of each.loadedBlocks) for (const id of blocks) taken.add(id);
  }
  return taken;
}

/**
 * What those who left computed on lost blocks can be found and is wrong. So the whole cache is forgotten. What these steps
 * bring for one that was preempted since is dropped, though it has no row that would say whether it held such a block.
 */
function forgetLeft(s: SchedulerState, oldest: Plan, left: readonly Request[]): void {
  for (const request of left) {
    spoilEntries(s, oldest, request);
    // One that runs again was admitted since, and is preempted below.
    if (!request.isFinished && request.container !== 'running') discardOutputs(s, request, oldest);
  }
  forgetSince(s, oldest);
}

function giveUp(s: SchedulerState, oldest: Plan | null, request: Request, firstBad: number): void {
  forgetRow(s, request.slot, firstBad);
  dropOutputs(s, request, oldest ?? undefined);
  request.failure ??= 'cannot go on: the executor lost a block of its KV';
}

function firstOf(s: SchedulerState, { slot }: Request, bad: ReadonlySet<number>): number {
  return s.core.blocks(slot).findIndex((id) => bad.has(id));
}
