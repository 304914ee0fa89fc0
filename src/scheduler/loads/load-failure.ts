// Loads that failed, wholly or in part.
import type { ParsedInvalid, ParsedOutput, ParsedReport } from '../connector/connector-output.js';
import { loseLoad, markFailed, tokensLoaded } from '../life/loading.js';
import { dropOutputs, preemptByForce } from '../life/preempt.js';
import { endConnectorWait } from '../life/wait-for-connector.js';
import type { Plan } from '../plan/plan.js';
import { lacksKv } from '../plan/sync-load.js';
import type { Load } from '../request/load.js';
import { peer } from '../request/outstanding.js';
import type { Request } from '../request/request.js';
import { getByHandle } from '../state/guards.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import {
  evictRow,
  forgetSince,
  recomputeSharers,
  someSharerLeft,
  spoilEntries,
  truncateLoad,
} from './bad-blocks.js';
import { isDeclared, isEarlierLoad, reportForeign } from './judge-report.js';
import {
  droppedInFlight,
  endsWhole,
  findMissing,
  firstTokenIn,
  holdsSince,
  kvIn,
  placesOf,
  tokensKept,
} from './lost-places.js';

/**
 * Applies reports of failed loads (vLLM `_handle_invalid_blocks`), before any other request builds
 * on the missing KV. Under the policy `recompute` a request computes from its first missing block
 * on; under `fail` it must end with `error`. Outputs of this step for it are dropped. A request
 * keeps the blocks of an asynchronous load until every rank has reported.
 * @param plan the plan being updated, which may have synchronous loads among these; null outside an
 * update
 * @param failedEntries requests whose entries failed in this same update, with the blocks that they
 * published
 * @returns the requests that the caller must end
 */
export function failLoads(
  s: SchedulerState,
  plan: Plan | null,
  output: ParsedOutput | null,
  failedEntries: ReadonlySet<Request>,
): Request[] {
  const failed = new Set<Request>();
  const plans = plan === null ? s.inFlight : [plan, ...s.inFlight];
  const found = new Set<number>();
  for (const report of output?.failedReceiving ?? []) applyFailed(s, plans, report, failed, found);
  for (const invalid of output?.invalidBlocks ?? []) applyInvalid(s, plans, invalid, failed, found);
  if (s.config.loadFailurePolicy === 'fail' && plan !== null) {
    // An older step may still bring an output for a request that was preempted and loaded again
    // since.
    for (const request of failed) dropOutputs(s, request, plan);
  }
  if (plan !== null && (found.size > 0 || plan.syncLoads.some(lacksKv))) {
    nameReassigned(s, plan);
    for (const id of found) plan.missing.add(id);
    failSyncLoads(s, plan, failed, failedEntries);
  } else if (found.size > 0) recomputeSharers(s, null, found, new Set());
  if (s.config.loadFailurePolicy === 'recompute') return [];
  for (const request of failed) request.failure ??= 'its KV could not be loaded';
  return [...failed];
}

/**
 * Applies the report that a load failed as a whole. Only declared ranks of the child that loads can
 * report it. For a synchronous load the plan is consulted first and not the request. The request
 * may have ended meanwhile while its blocks can still be found. An asynchronous load that was
 * declined costs its request nothing, whatever the policy.
 * @param found collects the blocks that others can find although they are being loaded
 */
function applyFailed(
  s: SchedulerState,
  plans: readonly Plan[],
  report: ParsedReport,
  failed: Set<Request>,
  found: Set<number>,
): void {
  const { handle, child, step } = report;
  const isOurs = (load: Load): boolean =>
    load.child === child && (step === undefined || step === load.step) && isDeclared(s, report);
  for (const { syncLoads, missing } of plans) {
    const load = syncLoads.find((each) => each.request.handle === handle && isOurs(each));
    if (load === undefined) continue;
    load.failed = true;
    for (const id of load.blocks) missing.add(id);
    return;
  }
  const request = getByHandle(s, handle);
  if (request === undefined) return;
  if (request.load !== null && isOurs(request.load)) {
    for (const id of request.load.blocks) if (wasFound(s, request, id)) found.add(id);
    loseLoad(s, request);
    // Nothing was written, so the case is the same as without an offer of the connector.
    if (report.declined !== true) failed.add(request);
    return;
  }
  // The request ended meanwhile, or continued without the load, so nothing would have read the
  // missing KV.
  if (request.load === null && request.outstanding?.has('load', peer(child, report.rank))) return;
  reportForeign(s, request, 'load', report, isEarlierLoad(request, step));
}

/**
 * Applies the report that a load did not fill one block: finds the loads of the child that were to
 * fill it. A synchronous load is noted in the plan that reads the block, and the update of that
 * plan draws the consequences. In three cases the report is only counted, as an anomaly. No load
 * fills the block, another child loads it, or it has a new owner by now.
 * @param found collects the block if others can find it although it is being loaded
 */
function applyInvalid(
  s: SchedulerState,
  plans: readonly Plan[],
  { block, handle, child }: ParsedInvalid,
  failed: Set<Request>,
  found: Set<number>,
): void {
  let known = false;
  let reassigned = false;
  let foreign = false;
  // No other request loads into it: an asynchronous load fills blocks that its request took for it
  // and keeps.
  const isNamed = (request: Request): boolean => handle === undefined || request.handle === handle;
  const loading = [...s.withLoad].find((each) => isNamed(each) && each.load?.blocks.includes(block));
  if (loading?.load?.child === child) {
    known = true;
    failed.add(loading);
    truncateLoad(s, loading, firstTokenIn(s, loading, new Set([block])));
    if (wasFound(s, loading, block)) found.add(block);
  } else foreign = loading !== undefined;
  for (const plan of plans) {
    for (const load of plan.syncLoads) {
      const at = isNamed(load.request) ? load.blocks.indexOf(block) : -1;
      if (at < 0) continue;
      if (load.child !== child) {
        foreign = true;
        continue;
      }
      load.failed = true;
      const kv = kvIn(s, block, load.generations[at]);
      // A request that still has its row has dropped the block, if another one has taken it since.
      if (kv > 0 || holdsSince(load.request, load.step)) known = plan.missing.add(kv).size > 0;
      else reassigned = true;
    }
  }
  if (known || isDrained(s, block, child, handle)) return;
  const whose = handle === undefined ? '' : ` of handle ${handle}`;
  if (foreign) s.anomalies.report('wrong-owner', `block ${block}${whose} is not loaded by child ${child}`);
  else if (reassigned)
    s.anomalies.report('reassigned-block', `block ${block}${whose} belongs to somebody else now`);
  else {
    const isRace = handle !== undefined && s.fenced.has(handle);
    s.anomalies.report('invalid-block', `block ${block}${whose} is not being loaded`, null, isRace);
  }
}

/**
 * Whether the prefix cache has a block that an asynchronous load fills. This happens only without
 * the deviation `limitLoadRetries`. A prompt of one token that fills a block is loaded again after
 * its block was published. The load goes over KV that others may read by then.
 */
function wasFound(s: SchedulerState, { numTokens }: Request, block: number): boolean {
  if (s.config.deviations.limitLoadRetries || numTokens > 1) return false;
  return s.core.published().includes(block);
}

/**
 * Adds to `plan.missing` the former KV of blocks that have been taken again since. This step did
 * not read the KV that their new owners write.
 */
function nameReassigned(s: SchedulerState, { syncLoads, missing }: Plan): void {
  const failed = syncLoads.filter((load) => load.failed);
  for (const { blocks, generations } of failed) {
    for (const [at, id] of blocks.entries()) {
      const kv = kvIn(s, id, generations[at]);
      if (kv < 0 && missing.delete(id)) missing.add(kv);
    }
  }
}

/**
 * Whether this child still loads the block for a request that has ended or continued without the
 * load: an abort and a failure can cross.
 */
function isDrained(s: SchedulerState, block: number, child: number, handle: number | undefined): boolean {
  return [...s.requests.values(), ...s.draining, ...s.quarantined].some(
    (request) =>
      request.load === null &&
      (handle === undefined || request.handle === handle) &&
      request.outstanding?.hasPeer('load', child) === true &&
      (placesOf(s, request).some(({ id }) => id === block) || request.keptBlocks?.includes(block) === true),
  );
}

/**
 * Draws the consequences of failed synchronous loads: the step has already read the missing blocks.
 * As in vLLM the first running request that holds a missing block computes it again, and later
 * holders rely on that. With the deviation `sharersWait` only the request whose own load failed
 * does so, and the other holders are preempted.
 */
function failSyncLoads(
  s: SchedulerState,
  plan: Plan,
  failed: Set<Request>,
  failedEntries: ReadonlySet<Request>,
): void {
  const { missing } = plan;
  const { deviations, loadFailurePolicy } = s.config;
  const ends = loadFailurePolicy === 'fail';
  if (!deviations.sharersWait) failPrefixes(s, plan, failed);
  const bad = new Set(missing);
  const owners = new Set<Request>();
  const marked = new Set<number>();
  for (const request of [...s.queues.running]) {
    const before = computedBeforeStep(s, plan, request);
    if (deviations.sharersWait) marked.clear();
    const touched = findMissing(s, plan, request, before, marked);
    if (touched === null) continue;
    const { isOwn, firstOwn, firstToken } = touched;
    if (deviations.sharersWait && !isOwn) continue;
    failed.add(request);
    if (firstOwn >= 0) s.counters.failedLoads++;
    dropOutputs(s, request, plan);
    request.numDraftTokens = 0;
    // An older failed load may leave fewer tokens.
    const from = endsWhole(s) ? firstToken : firstOwn;
    const kept = from < 0 ? before : tokensKept(s, request, from);
    const begun = firstInFlight(s, request);
    const sure = begun < kept ? tokensKept(s, request, begun) : kept;
    request.numComputedTokens = Math.min(request.numComputedTokens, sure);
    if (from >= 0 && (ends || deviations.evictFailedLoads)) evictRow(s, request, from, bad);
    if (firstOwn < 0) continue;
    request.numCachedTokens = Math.min(request.numCachedTokens, request.numComputedTokens);
    owners.add(request);
    // If a request computes everything again, its rows may lack blocks that its first tokens need.
    const lacks = firstOwn > 0 || plan.groups.length > 1 || droppedInFlight(s, request).length > 0;
    if (lacks && request.numComputedTokens === 0 && !ends) preemptByForce(s, request, plan);
  }
  // Loads whose blocks have a new owner count too, because tokens that were computed from their KV
  // and published are wrong nevertheless.
  const lost = plan.syncLoads.filter(lacksKv);
  for (const load of lost) {
    const { request } = load;
    load.numLoaded = owners.has(request) ? tokensLoaded(request, load) : 0;
    request.numFailedLoads++;
    endConnectorWait(s, request);
    spoilEntries(s, plan, request);
  }
  // An owner that was preempted above is not a loss: its row was evicted before.
  const known = new Set([...failedEntries, ...owners]);
  const traceless = lost.some(({ request }) => !owners.has(request) && !holdsSince(request, plan.step));
  const isUnknown = traceless || someSharerLeft(s, plan, known);
  // An owner that was admitted again since may have left published blocks that this step computed
  // after its load: a hit spares the last token. Those blocks can no longer be identified. Its new
  // row was evicted above, so it keeps the tokens before the load.
  const hasLeft = [...owners].some(({ admittedStep }) => admittedStep > plan.step);
  if (deviations.evictFailedLoads && (isUnknown || hasLeft))
    forgetSince(s, plan, isUnknown ? new Set() : owners);
  else if (deviations.sharersWait) recomputeSharers(s, plan, bad, owners);
}

/**
 * Without the deviation `sharersWait`, as in vLLM: a waiting request's load fails too if a block of
 * its cached prefix is missing. If several loads follow the same missing prefix, the first one
 * computes it and the others rely on that.
 */
function failPrefixes(s: SchedulerState, plan: Plan, failed: Set<Request>): void {
  const marked = new Set<number>();
  for (const request of s.queues.allSkipped()) {
    if (request.load === null) continue;
    const touched = findMissing(s, plan, request, Number.POSITIVE_INFINITY, marked);
    if (touched === null) continue;
    markFailed(s, request, request.load);
    const from = endsWhole(s) ? touched.firstToken : touched.firstOwn;
    if (from >= 0) truncateLoad(s, request, from);
    failed.add(request);
  }
}

/**
 * The first token that steps in flight compute for a request since it was admitted. After an
 * earlier failure such a step may begin before the tokens that this step loaded. Its outputs are
 * dropped now, so no request may rely on the KV that it computes.
 */
function firstInFlight({ inFlight }: SchedulerState, request: Request): number {
  let first = Number.POSITIVE_INFINITY;
  for (const plan of inFlight) {
    const at = plan.step < request.admittedStep ? -1 : plan.indexOf(request);
    if (at >= 0) first = Math.min(first, plan.numComputedTokens[at]);
  }
  return first;
}

/** Computed tokens that a running request had before this step and the steps in flight after it. */
function computedBeforeStep(s: SchedulerState, plan: Plan, request: Request): number {
  for (const each of [plan, ...s.inFlight]) {
    const at = each.indexOf(request);
    if (at >= 0) return each.numComputedTokens[at];
  }
  return request.numComputedTokens;
}
