import { evictRow, forgetSince, recomputeSharers, someSharerLeft, spoilEntries } from './bad-blocks.js';
import { forgetBlocks } from './forget.js';
import type { Plan } from './plan.js';
import { dropOutputs } from './preempt.js';
import type { Request } from './request.js';
import type { SchedulerState } from './scheduler-state.js';

const NOBODY: ReadonlySet<Request> = new Set();

/**
 * Takes that the KV of these blocks is gone, whoever wrote it. Nobody finds them any more. Whoever holds one of them is
 * computed again from the first of them on, or is to end with `error`, as `loadFailurePolicy` says; what the step being
 * updated and those in flight bring for it was computed without that KV, and is dropped.
 * @param plan the one being updated; null outside of an update
 * @returns the requests that are to end
 */
export function loseBlocks(s: SchedulerState, plan: Plan | null, lost: readonly number[]): Request[] {
  const bad = new Set<number>();
  for (const id of lost) {
    if (id >= 1 && id < s.config.numBlocks) bad.add(id);
    else s.anomalies.report('invalid-block', `block ${id} is none of the pool`);
  }
  if (bad.size === 0) return [];
  s.core.flush();
  forgetBlocks(s, Int32Array.from(bad));
  s.blocksMoved = true;
  const holders = [...s.requests.values()].filter((request) => holdsOne(s, request, bad));
  if (plan !== null) for (const request of holders) spoilEntries(s, plan, request);
  if (s.config.loadFailurePolicy === 'recompute') recomputeSharers(s, plan, bad, NOBODY);
  else {
    for (const request of holders) {
      evictRow(s, request, firstOf(s, request, bad), new Set());
      dropOutputs(s, request, plan ?? undefined);
      request.failure ??= 'its KV was lost by the executor';
    }
  }
  // What somebody computed on them in these steps, who has left, can be found and is wrong.
  const oldest = plan ?? s.inFlight.at(0);
  if (oldest !== undefined && someSharerLeft(s, oldest)) forgetSince(s, oldest);
  return s.config.loadFailurePolicy === 'recompute' ? [] : holders;
}

function holdsOne(s: SchedulerState, request: Request, bad: ReadonlySet<number>): boolean {
  return firstOf(s, request, bad) >= 0;
}

function firstOf(s: SchedulerState, { slot }: Request, bad: ReadonlySet<number>): number {
  return s.core.blocks(slot).findIndex((id) => bad.has(id));
}
