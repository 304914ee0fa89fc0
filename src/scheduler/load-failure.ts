import {
  evictRow,
  forgetSince,
  holdsSince,
  recomputeSharers,
  someSharerLeft,
  truncateLoad,
} from './bad-blocks.js';
import type { TakenOutput } from './connector-output.js';
import { getByHandle } from './guards.js';
import { loseLoad } from './load.js';
import type { Plan } from './plan.js';
import { dropOutputs } from './preempt.js';
import type { Request } from './request.js';
import type { SchedulerState } from './scheduler-state.js';

/**
 * Takes what could not be loaded (vLLM `_handle_invalid_blocks`), before anybody builds on it. A request whose load failed
 * computes from the first block that is missing, or is to end with `error`, as `loadFailurePolicy` says; what this step
 * brings for it is dropped. Asynchronous loads keep their blocks until they have reported.
 * @param plan the one being updated, whose synchronous loads these may be; null = none
 * @returns the requests that are to end
 */
export function failLoads(s: SchedulerState, plan: Plan | null, output: TakenOutput | null): Request[] {
  const failed = new Set<Request>();
  const missing = new Set<number>();
  if (output !== null) {
    for (const { handle, step } of output.failedReceiving) {
      const request = getByHandle(s, handle);
      if (request === undefined) continue;
      const sync = plan?.syncLoads.find((load) => load.request === request);
      if (sync !== undefined) for (const id of sync.blocks) missing.add(id);
      else if (request.load !== null && (step === undefined || step === request.load.step)) {
        loseLoad(request);
        failed.add(request);
      }
    }
    for (const { block, handle } of output.invalidBlocks)
      takeInvalid(s, plan, block, handle, failed, missing);
  }
  if (plan?.lacksMetadata) for (const { blocks } of plan.syncLoads) for (const id of blocks) missing.add(id);
  s.counters.failedLoads += failed.size;
  if (plan !== null && missing.size > 0) failSyncLoads(s, plan, missing, failed);
  if (s.config.loadFailurePolicy === 'recompute') return [];
  for (const request of failed) request.failure ??= 'its KV could not be loaded';
  return [...failed];
}

/** Finds the loads that were to fill the block. One that nobody loads, or that is somebody else's by now, hurts nobody. */
function takeInvalid(
  s: SchedulerState,
  plan: Plan | null,
  block: number,
  handle: number | undefined,
  failed: Set<Request>,
  missing: Set<number>,
): void {
  let known = false;
  let reassigned = false;
  for (const request of s.loading) {
    const { load } = request;
    if (load === null || (handle !== undefined && request.handle !== handle)) continue;
    const at = load.blocks.indexOf(block);
    if (at < 0) continue;
    known = true;
    failed.add(request);
    truncateLoad(s, request, Math.floor(load.localTokens / s.config.blockSize) + at);
  }
  for (const { request, blocks, generations } of plan?.syncLoads ?? []) {
    const at = handle === undefined || request.handle === handle ? blocks.indexOf(block) : -1;
    if (at < 0) continue;
    if (s.core.native.blockGeneration(block) === generations[at]) known = missing.add(block).size > 0;
    else reassigned = true;
  }
  if (known) return;
  const whose = handle === undefined ? '' : ` of handle ${handle}`;
  if (reassigned)
    s.anomalies.report('reassigned-block', `block ${block}${whose} belongs to somebody else now`);
  else s.anomalies.report('invalid-block', `block ${block}${whose} is not being loaded`);
}

/**
 * Synchronous loads: the step has read what is missing. Whoever was first to hold a missing block has to write it; as in
 * vLLM the others count on that, unless `sharersWait`.
 */
function failSyncLoads(s: SchedulerState, plan: Plan, missing: Set<number>, failed: Set<Request>): void {
  const { blockSize, deviations, loadFailurePolicy } = s.config;
  const evicts = deviations.evictFailedLoads || loadFailurePolicy === 'fail';
  if (!deviations.sharersWait) failPrefixes(s, missing, failed);
  const bad = new Set(missing);
  const owners = new Set<Request>();
  const marked = new Set<number>();
  for (const request of s.queues.running) {
    const before = computedBefore(s, plan, request);
    const touched = findMissing(s, request, Math.ceil(before / blockSize), missing, marked);
    if (touched === null) continue;
    const { firstOwn, isSharer } = touched;
    if (deviations.sharersWait && isSharer) continue;
    failed.add(request);
    s.counters.failedLoads++;
    dropOutputs(s, request, plan);
    request.numDraftTokens = 0;
    request.numComputedTokens = firstOwn < 0 ? before : firstOwn * blockSize;
    if (firstOwn < 0) continue;
    owners.add(request);
    if (evicts) evictRow(s, request, firstOwn, bad);
  }
  const traceless = plan.syncLoads.some(
    ({ request, blocks }) => !holdsSince(request, plan.step) && blocks.some((id) => missing.has(id)),
  );
  if (deviations.evictFailedLoads && (traceless || someSharerLeft(s, plan))) forgetSince(s, plan);
  else if (deviations.sharersWait) recomputeSharers(s, plan, bad, owners);
}

/** As in vLLM a load fails with the cached prefix in front of it, where somebody else was to load that. */
function failPrefixes(s: SchedulerState, missing: ReadonlySet<number>, failed: Set<Request>): void {
  for (const request of s.loading) {
    const first = s.core.blocks(request.slot).findIndex((id) => missing.has(id));
    if (first < 0) continue;
    truncateLoad(s, request, first);
    failed.add(request);
  }
}

/** Tokens of a running request that it had before this step and the ones behind it. */
function computedBefore(s: SchedulerState, plan: Plan, request: Request): number {
  for (const each of [plan, ...s.inFlight]) {
    const at = each.indexOf(request);
    if (at >= 0) return each.numComputedTokens[at];
  }
  return request.numComputedTokens;
}

/** The first missing block that nobody before has to write, -1 if none; and whether somebody else's comes first. */
function findMissing(
  s: SchedulerState,
  request: Request,
  numBlocks: number,
  missing: ReadonlySet<number>,
  marked: Set<number>,
): { firstOwn: number; isSharer: boolean } | null {
  const ids = s.core.blocks(request.slot).subarray(0, numBlocks);
  let firstOwn = -1;
  let firstShared = -1;
  ids.forEach((id, i) => {
    if (!missing.has(id)) return;
    if (marked.has(id)) firstShared = firstShared < 0 ? i : firstShared;
    else if (firstOwn < 0) firstOwn = i;
    marked.add(id);
  });
  if (firstOwn < 0 && firstShared < 0) return null;
  return { firstOwn, isSharer: firstShared >= 0 && (firstOwn < 0 || firstShared < firstOwn) };
}
