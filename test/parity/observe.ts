// Plans, outputs and state in the form of a trace.
import { crc32 } from 'node:zlib';
import { byCodePoints } from './code-points.js';
import { readRow, type TraceGroups } from './rows.js';
import type { Subject, SubjectCore, SubjectOutputs, SubjectPlan } from './subject.js';
import type { OutputRow, Sched, Trace, TraceStep, Update } from './trace.js';

/** The fields that only a trace with KV cache groups has. */
type OfGroups = 'cached_by_group' | 'rows';
type Final = Trace['final'];

/** The state fields that a trace records after every step. */
export type State = Omit<
  Required<Update>,
  'for' | 'out' | 'kv' | 'conn' | 'drafts' | 'kv_events' | OfGroups
> &
  Pick<Update, OfGroups>;
/** The fields that a plan itself shows. */
export type ObservedPlan = Omit<Required<Sched>, 'conn' | 'bitmask' | 'free' | 'usage' | 'zero'> &
  Pick<Sched, 'zero'>;

/** vLLM's names of finish reasons, by blockstep's code. An abort makes no row in a trace, so it has no valid name. */
const REASONS = [null, 'stop', 'length', 'abort', 'error'] as const;

/** Six decimals, ties to even: the result of Python's round(x, 6) for x in [0, 1]. */
export function round6(x: number): number {
  // 40 decimals spell a double this large out far enough to tell an exact tie from a near one.
  const [whole, decimals] = x.toFixed(40).split('.');
  const tie = /^50*$/.test(decimals.slice(6));
  const even = Number(decimals[5]) % 2 === 0;
  return tie && even ? Number(`${whole}.${decimals.slice(0, 6)}`) : Number(x.toFixed(6));
}

/** The rows of an entry by group: of one that was running only what is new. */
function rowsOf(plan: SubjectPlan, core: Pick<SubjectCore, 'native'>, i: number, count: number): number[][] {
  return Array.from({ length: count }, (_, group) => {
    const { numBlocks, numNewBlocks } = plan.groups?.[group] ?? plan;
    const from = plan.kinds[i] === 0 ? numBlocks[i] - numNewBlocks[i] : 0;
    return readRow(core, plan.slots[i], from, numBlocks[i] - from, group);
  });
}

/** Common prefixes by group. */
function commonPrefixes(plan: SubjectPlan, count: number): number[] {
  return Array.from({ length: count }, (_, group) => (plan.groups?.[group] ?? plan).numCommonPrefixBlocks);
}

/**
 * A plan in the words of a trace. Must be called right after schedule(), while requests and block lists are those of
 * the plan.
 * @param numGroups how many groups the trace knows; undefined: it is older than groups
 */
export function observePlan(
  plan: SubjectPlan,
  core: Pick<SubjectCore, 'native'>,
  numGroups?: number,
): ObservedPlan {
  const seen: ObservedPlan = {
    new: [],
    resumed: [],
    running: [],
    tokens: [],
    total: plan.totalTokens,
    preempted: [...plan.preempted],
    finished: [...plan.finished].sort(byCodePoints),
    all_tokens: {},
    common: numGroups === undefined ? plan.numCommonPrefixBlocks : commonPrefixes(plan, numGroups),
    spec: draftRows(plan),
    pend: plan.pendingStructuredOutputTokens ? 1 : 0,
  };
  const { blocksToZero } = plan;
  if (numGroups !== undefined && blocksToZero !== undefined) {
    seen.zero = blocksToZero && Array.from(blocksToZero);
  }
  for (let i = 0; i < plan.numRequests; i++) {
    const { id, numTokens } = plan.requests[i];
    const computed = plan.numComputedTokens[i];
    const output = plan.numOutputTokens(i);
    const isRunning = plan.kinds[i] === 0;
    const rows = rowsOf(plan, core, i, numGroups ?? 1);
    const blocks = numGroups === undefined ? rows[0] : rows;
    const isEmpty = rows.every((row) => row.length === 0);
    if (isRunning) seen.running.push([id, isEmpty ? null : blocks, computed, output]);
    else if (plan.kinds[i] === 1) seen.new.push([id, blocks, computed]);
    else seen.resumed.push([id, blocks, computed, output]);
    seen.tokens.push([id, plan.numScheduledTokens[i]]);
    if (plan.kinds[i] !== 1 && plan.needsAllTokens[i] === 1) seen.all_tokens[id] = numTokens;
  }
  return seen;
}

/** The drafts of a plan, of the entries that have any. */
function draftRows(plan: SubjectPlan): [string, number[]][] {
  return plan.requests.slice(0, plan.numRequests).flatMap(({ id }, i): [string, number[]][] => {
    const drafts = plan.draftTokens.subarray(i * plan.maxDrafts).subarray(0, plan.numDraftTokens[i]);
    return drafts.length > 0 ? [[id, Array.from(drafts)]] : [];
  });
}

/** The requests that have rows in the grammar bitmask of a plan now; null if there are none. */
export function observeBitmask(plan: SubjectPlan): string[] | null {
  const ids = plan.bitmaskEntries().map((i) => plan.requests[i].id);
  return ids.length > 0 ? ids : null;
}

/** A plan whose sampling was deferred, just before it is sampled. */
export function observeDeferred(plan: SubjectPlan): Omit<NonNullable<TraceStep['defer']>, 'drafts'> {
  const ids = plan.requests.slice(0, plan.numRequests).map(({ id }) => id);
  const invalid = ids.map((id, i) => [id, plan.numInvalidDraftTokens[i]] as const);
  return {
    spec: draftRows(plan),
    invalid: Object.fromEntries(invalid.filter(([, count]) => count > 0)),
    bitmask: observeBitmask(plan),
  };
}

/** The rows that update() returned, in the words of a trace. Must be called before the next call of the scheduler. */
export function observeOutputs(outputs: SubjectOutputs): OutputRow[] {
  const rows: OutputRow[] = [];
  for (let i = 0; i < outputs.length; i++) {
    const { id, stopReason, finishedParams } = outputs.requests[i];
    const from = outputs.tokenOffsets[i];
    const tokens = Array.from(outputs.tokens.subarray(from, from + outputs.tokenCounts[i]));
    const reason = REASONS[outputs.finishReasons[i]] as OutputRow[2];
    const hasParams = finishedParams === null ? 0 : 1;
    const isPlain = stopReason === null && hasParams === 0;
    rows.push(isPlain ? [id, tokens, reason] : [id, tokens, reason, stopReason, hasParams]);
  }
  return rows;
}

/** How full the pool is, in the words of a trace. */
export function observePool({
  freeBlocks,
  usage,
  config,
}: Pick<SubjectCore, 'freeBlocks' | 'usage' | 'config'>): Pick<State, 'free' | 'usage'> {
  if (config?.keptBlocks === undefined) return { free: freeBlocks, usage: round6(usage) };
  // In vLLM the blocks of sinks are always in use.
  const all = config.numBlocks - 1;
  return { free: freeBlocks, usage: round6((config.keptBlocks + usage * (all - config.keptBlocks)) / all) };
}

/**
 * The state after a step, in the words of a trace.
 * @param groups undefined: the trace is older than groups
 */
export function observeState(
  subject: Pick<Subject, 'core' | 'inspect' | 'numUnfinished'>,
  groups?: TraceGroups,
): State {
  const { running, waiting, skipped, requests } = subject.inspect();
  return {
    ...observePool(subject.core),
    fq: crc32(subject.core.freeQueue().join(',')),
    cached: subject.core.publishedBlocks,
    run: [...running],
    wait: [...waiting],
    skip: [...skipped],
    unf: subject.numUnfinished,
    reqs: requests
      .filter((r) => r.numComputedTokens !== 0 || r.numOutputPlaceholders !== 0 || r.numDraftTokens !== 0)
      .map((r) => [r.id, r.numComputedTokens, r.numTokens, r.numOutputPlaceholders, r.numDraftTokens]),
    ...groups?.observe(subject),
  };
}

/**
 * The recorded state without vLLM's counters of finished requests whose blocks are still sent. In
 * `reqs` vLLM lists them like the counters of a live request, and nothing reads them any more.
 */
export function recordedState<S extends Partial<State>>(state: S, subject: Pick<Subject, 'inspect'>): S {
  const finished = new Set(subject.inspect().draining.map((request) => request.id));
  return state.reqs ? { ...state, reqs: state.reqs.filter(([id]) => !finished.has(id)) } : state;
}

/** The state after the last step, in the words of a trace. */
export function observeFinal(
  subject: Pick<Subject, 'core' | 'inspect' | 'numUnfinished'>,
  groups?: TraceGroups,
): State & Pick<Final, 'free_queue' | 'cached_ids' | 'requests_left' | 'cached_groups'> {
  const { requests, draining } = subject.inspect();
  return {
    ...observeState(subject),
    ...groups?.observeFinal(subject),
    free_queue: Array.from(subject.core.freeQueue()),
    cached_ids: Array.from(subject.core.published()),
    // Requests that are still being sent: no scheduler decides which of them finished first.
    requests_left: [...requests.map(({ id }) => id), ...draining.map(({ id }) => id).sort(byCodePoints)],
  };
}
