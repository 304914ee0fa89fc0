import { INSPECT, showFacts } from '../../base/inspect.js';
import type { Frame } from '../../core/core.js';
import type { Request } from '../request/request.js';
import { FinishCode } from '../request/status.js';
import { NO_BLOCKS } from './let-go.js';
import { planFacts } from './plan-facts.js';
import { type PlanGroup, planGroups, removeGroupEntry } from './plan-group.js';
import type { SyncLoad } from './sync-load.js';

/** How an entry came into a plan: running already, newly admitted, or admitted again after a preemption. */
export const EntryKind = {
  /** The request was running when the step was planned. */
  running: 0,
  /** The request was admitted for the first time, or for the next chunk of its session. */
  new: 1,
  /** The request was admitted again after a preemption. */
  resumed: 2,
} as const;
export type EntryKind = (typeof EntryKind)[keyof typeof EntryKind];

/** Step number of "never scheduled". It is not -1, the number before the first step. */
export const NEVER = -2;

/**
 * The work of one step (vLLM's SchedulerOutput), as flat arrays in batch order. The requests that
 * were running come first, in their order, then the admitted requests. Entry i of every array
 * belongs to `requests[i]`, for i < `numRequests`. The object is reused: its content is valid from
 * its `schedule()` until the `schedule()` after its `update()`.
 */
export class Plan {
  /** Number of the step, from 0. */
  step = NEVER;
  /** Entries in this plan. */
  numRequests = 0;
  /** Scheduled tokens of all entries; 0 = nothing to execute. */
  totalTokens = 0;
  /** The request of each entry. Content after `numRequests` is left from older plans. */
  readonly requests: Request[] = [];
  /** `EntryKind` of each entry. */
  readonly kinds: Uint8Array;
  /** Slot of each request in the native request table. */
  readonly slots: Int32Array;
  /** Tokens of each entry that the step computes, drafts included. */
  readonly numScheduledTokens: Int32Array;
  /** Tokens of each entry whose KV exists before this step. */
  readonly numComputedTokens: Int32Array;
  /** Blocks of each entry's request, those taken in this step included. */
  readonly numBlocks: Int32Array;
  /**
   * How many of the `numBlocks` blocks are new in this step: the last ones. For an admitted entry,
   * all are.
   */
  readonly numNewBlocks: Int32Array;
  /**
   * For an admitted entry: its leading blocks that were not taken from the pool in this step. They
   * are its cached prefix, or the blocks that its request held while it waited (for a load, for the
   * next chunk). For a running entry the value has no meaning.
   */
  readonly numHitBlocks: Int32Array;
  /**
   * The same by KV cache group; the arrays of the plan are those of the first group. Without groups
   * there is one.
   */
  readonly groups: readonly PlanGroup[];
  /**
   * With a group of states: blocks that groups of attention took; null if none. They must be zeroed
   * before loads of this plan begin. See `ExecutorPlan`.
   */
  blocksToZero: Int32Array | null = null;
  /** Draft tokens among the scheduled tokens of each entry. */
  readonly numDraftTokens: Int32Array;
  /**
   * Drafts of entry i, from index i * maxDrafts on. -1: made by a step in flight, or refused by the
   * grammar.
   */
  readonly draftTokens: Int32Array;
  /** The maximum number of draft tokens of a request. */
  readonly maxDrafts: number;
  /** 1: not scheduled in the step before, so a worker that mirrors tokens needs the whole token list. */
  readonly needsAllTokens: Uint8Array;
  /**
   * The maximum number of tokens that each entry can produce: 0 while known tokens remain to be
   * computed, else 1 + its drafts.
   */
  readonly maxOutputTokens: Uint8Array;
  /** Drafts of each entry that its grammar refused after they were scheduled (`Scheduler.replaceDraftTokens`). */
  readonly numInvalidDraftTokens: Uint8Array;
  /** @internal The sum of `numInvalidDraftTokens`. */
  numInvalidDrafts = 0;
  /**
   * True: with pipelined steps, the tokens that an entry with a grammar may sample depend on a step
   * in flight. Such a plan may be computed at once, but must be sampled only when every earlier
   * plan was updated.
   */
  pendingStructuredOutputTokens = false;
  /** External ids of the requests that this step preempted, in order. */
  preempted: string[] = [];
  /** Handles of the requests in `preempted`, in the same order. */
  preemptedHandles: number[] = [];
  /**
   * External ids of requests that finished since the previous plan, each once (vLLM's
   * finished_req_ids, a set). An id may have been used more than once since, and a new request of
   * this plan may have it.
   */
  finished: string[] = [];
  /**
   * Handles of all requests that finished since the previous plan, in the order in which they
   * ended.
   */
  finishedHandles: number[] = [];
  /**
   * With a connector: handles of the requests that released their blocks since the previous plan,
   * and continue. They are preempted requests, whatever the cause, and waiting requests whose
   * blocks others needed.
   */
  releasedHandles: number[] = [];
  /**
   * The message of the connector's scheduler side to its workers; undefined without a connector, or
   * if it failed.
   */
  connectorMetadata: unknown = undefined;
  /**
   * If workers need it (`BlockReuse.taken`), or with `reportBlocks`: blocks that this plan, or a
   * load that it begins, took from the pool. Their former content is gone.
   */
  takenBlocks: Int32Array = NO_BLOCKS;
  /**
   * Blocks that its requests dropped, such as those left of a window. Steps in flight may still
   * read them. Filled with a connector, `reportBlocks` or `pipelineDepth` > 1. With protection
   * `own`, blocks follow that requests dropped when they ended, if a step in flight has the
   * request.
   */
  droppedBlocks: Int32Array = NO_BLOCKS;
  /** @internal `letGoBy` reads it. */ letGo: Int32Array = NO_BLOCKS;
  /**
   * With `reportBlocks`: blocks that lost their hashes since the previous plan, so that their
   * present content can no longer be found. The causes are a reset of the prefix cache, a failed
   * step or load, or a session's dropped token. Blocks without a hash may be included.
   */
  forgottenBlocks: Int32Array = NO_BLOCKS;
  /** @internal The blocks of each asynchronous load that this plan begins. */
  loadedBlocks: Int32Array[] = [];
  /** @internal Synchronous loads of this plan: they must be complete when the plan is executed. */
  syncLoads: SyncLoad[] = [];
  /** @internal Blocks of `syncLoads` that failed and are still those loads' own. The plan's update needs them. */
  readonly missing = new Set<number>();
  /** Leading blocks that all requests with blocks share, in the first group; 0 with prefix caching off. */
  get numCommonPrefixBlocks(): number {
    return this.groups[0].numCommonPrefixBlocks;
  }

  /** @internal Frame of the exchange buffer behind the shared arrays. */ readonly frame: number;
  /** @internal The maximum number of drafts of each entry's next step. */ readonly maxNextDrafts: Uint8Array;
  /**
   * @internal 1: the output of this entry is dropped, because its request is computed again or has
   * continued without it; 2: because of a forced reset.
   */
  readonly dropped: Uint8Array;
  /**
   * @internal 1: the KV of this entry must not be stored, though it was not dropped; see
   * `failedHandles`.
   */
  readonly spoiled: Uint8Array;
  /**
   * @internal True: the connector, or a child, could not make metadata. Its transfers are listed in
   * a later plan.
   */
  lacksMetadata = false;
  /** @internal Requests whose newly filled blocks this plan's update can publish; empty outside the update. */
  readonly settled: Request[] = [];
  /**
   * @internal Requests that release their blocks in this plan's update and compute again; empty
   * outside it.
   */
  readonly sentBack: Request[] = [];
  /**
   * @internal The number of leading entries that belong to a steady decode, of that epoch
   * (`Steady`).
   */ numSteady = 0;
  /** @internal */ steadyEpoch = 0;
  /** @internal For a steady entry: the token that ends its text. */ readonly ends: Int32Array;
  /** @internal The list of requests whose columns are in these arrays; 0 = none. */ steadyLayout = 0;
  /** @internal The repeated steps for which every field is right; 0 = none. */ repeats = 0;
  /** @internal The repeated steps in which its result may be taken. */ plainIn = 0;
  /** @internal */ inFlight = false;
  /**
   * @internal True: returned to the caller, and neither updated nor given up since: see
   * `Scheduler.schedule`.
   */
  awaitsUpdate = false;
  /**
   * @internal For a plan that is executed later: the tokens that its requests had when they ended,
   * or when another chunk of their session began. Null for any other plan.
   */
  keptTokens: Map<Request, Int32Array> | null = null;
  /** Whether `bitmaskEntries` leaves out requests that have ended and are still sent (`skipEndedBitmasks`). */
  readonly #skipsEnded: boolean;

  /** @internal */
  constructor(frame: Frame, maxDrafts: number, skipsEnded: boolean) {
    const capacity = frame.slots.length;
    this.#skipsEnded = skipsEnded;
    this.frame = frame.index;
    this.slots = frame.slots;
    this.numScheduledTokens = frame.numScheduledTokens;
    this.numComputedTokens = frame.numComputedTokens;
    this.numBlocks = frame.numBlocks;
    this.numNewBlocks = frame.numNewBlocks;
    this.maxDrafts = maxDrafts;
    this.kinds = new Uint8Array(capacity);
    this.groups = planGroups(frame);
    this.numHitBlocks = this.groups[0].numHitBlocks;
    this.numDraftTokens = new Int32Array(capacity);
    this.draftTokens = new Int32Array(capacity * maxDrafts);
    this.needsAllTokens = new Uint8Array(capacity);
    this.maxOutputTokens = new Uint8Array(capacity);
    this.maxNextDrafts = new Uint8Array(capacity).fill(maxDrafts);
    this.dropped = new Uint8Array(capacity);
    this.spoiled = new Uint8Array(capacity);
    this.ends = new Int32Array(capacity);
    this.numInvalidDraftTokens = new Uint8Array(capacity);
  }

  /**
   * Generated tokens of entry i, with those expected from earlier steps in flight (vLLM num_output_tokens of the
   * plan). Valid until the next call of the scheduler.
   */
  numOutputTokens(i: number): number {
    const request = this.requests[i];
    const ofThisStep = request.numOutputPlaceholders === 0 ? 0 : this.maxOutputTokens[i];
    return request.numOutputTokens + request.numOutputPlaceholders - ofThisStep;
  }

  /**
   * The entries whose tokens a grammar constrains now, ascending: those that sample and whose
   * request is unfinished (vLLM get_grammar_bitmask). Each entry has 1 + numDraftTokens rows of a
   * bitmask, in order. Row k has the tokens that the grammar allows after the first k drafts. With
   * `skipEndedBitmasks` off, as in vLLM, requests that ended while their blocks are still sent are
   * included. Allocates.
   */
  bitmaskEntries(): number[] {
    const entries: number[] = [];
    for (let i = 0; i < this.numRequests; i++) {
      const { grammar, isFinished, outstanding } = this.requests[i];
      if (grammar === null || this.maxOutputTokens[i] === 0) continue;
      const isSent = outstanding !== null && outstanding.size > 0;
      if (!isFinished || (isSent && !this.#skipsEnded)) entries.push(i);
    }
    return entries;
  }

  /**
   * Handles of the requests whose KV of this step must not be stored. Valid from the plan's update
   * on. There are five causes. The request's entry failed, alone or with its step. Its output was
   * dropped. It ended with `error`, because an earlier step or a load failed. It read KV that a
   * failed entry or load left wrong. Its blocks may belong to others by now. With protection
   * `fence` this happens if it ended before the update. With `own` it happens if its blocks were
   * kept for ranks that have all reported since. Allocates.
   */
  failedHandles(): number[] {
    const handles: number[] = [];
    for (let i = 0; i < this.numRequests; i++) {
      const { handle, finishCode, isGone } = this.requests[i];
      const failed = this.dropped[i] + this.spoiled[i] > 0 || finishCode === FinishCode.error || isGone;
      if (failed) handles.push(handle);
    }
    return handles;
  }

  /** For `util.inspect` and `console.log`: the size of the plan and its first entries. */
  [INSPECT](depth: number, options: object): string {
    return showFacts('Plan', depth, options, planFacts(this));
  }

  /** @internal Notes that the KV of a request from this step must not be stored. */
  spoil(request: Request): void {
    const at = this.indexOf(request);
    if (at >= 0) this.spoiled[at] = 1;
  }

  /**
   * Whether the plan has synchronous loads. It may then be executed only after all earlier steps.
   */
  get hasSyncLoads(): boolean {
    return this.syncLoads.length > 0;
  }

  /** @internal Empties the plan for a new step. */
  begin(step: number): void {
    this.step = step;
    this.totalTokens = 0;
    this.numSteady = 0;
    this.repeats = 0;
    for (const group of this.groups) group.numCommonPrefixBlocks = 0;
    this.blocksToZero = null;
    this.dropped.fill(0, 0, this.numRequests);
    this.spoiled.fill(0, 0, this.numRequests);
    if (this.numInvalidDrafts > 0) this.numInvalidDraftTokens.fill(0);
    this.numInvalidDrafts = 0;
    this.pendingStructuredOutputTokens = false;
    this.numRequests = 0;
    // Lists that were returned belong to the caller. They are replaced, not emptied.
    if (this.preempted.length > 0) {
      this.preempted = [];
      this.preemptedHandles = [];
    }
    if (this.finished.length > 0) this.finished = [];
    if (this.finishedHandles.length > 0) this.finishedHandles = [];
    if (this.releasedHandles.length > 0) this.releasedHandles = [];
    if (this.syncLoads.length > 0) this.syncLoads = [];
    if (this.loadedBlocks.length > 0) this.loadedBlocks = [];
    this.takenBlocks = NO_BLOCKS;
    this.droppedBlocks = NO_BLOCKS;
    this.letGo = NO_BLOCKS;
    this.forgottenBlocks = NO_BLOCKS;
    if (this.missing.size > 0) this.missing.clear();
    this.keptTokens = null;
  }

  /**
   * @internal Appends an entry; the caller fills in its drafts and blocks. From now on the
   * scheduled tokens count as computed, although they are not computed yet (vLLM
   * `_update_after_schedule`). So the next step may be planned while this one runs.
   */
  push(request: Request, numScheduled: number, kind: EntryKind): number {
    const i = this.numRequests++;
    // In steady decode the same request is here already, and storing an object costs more than comparing two.
    if (this.requests[i] !== request) this.requests[i] = request;
    this.kinds[i] = kind;
    this.slots[i] = request.slot;
    this.numScheduledTokens[i] = numScheduled;
    this.numComputedTokens[i] = request.numComputedTokens;
    this.totalTokens += numScheduled;
    request.numComputedTokens += numScheduled;
    const known = request.numTokens + request.numOutputPlaceholders;
    this.maxOutputTokens[i] = request.numComputedTokens < known ? 0 : 1;
    return i;
  }

  /** @internal Drops the entries from index `length` on. Their scheduled tokens no longer count as computed. */
  truncate(length: number): void {
    for (let i = length; i < this.numRequests; i++) {
      this.totalTokens -= this.numScheduledTokens[i];
      this.requests[i].numComputedTokens = this.numComputedTokens[i];
    }
    this.numRequests = length;
  }

  /**
   * @internal Removes entry `at`, and later entries move up. Its request is about to be preempted.
   */
  removeEntry(at: number): void {
    this.totalTokens -= this.numScheduledTokens[at];
    const end = this.numRequests;
    this.requests.splice(at, 1);
    for (const column of [this.slots, this.numScheduledTokens, this.numComputedTokens]) {
      column.copyWithin(at, at + 1, end);
    }
    for (const group of this.groups) removeGroupEntry(group, at, end);
    this.maxOutputTokens.copyWithin(at, at + 1, end);
    this.numDraftTokens.copyWithin(at, at + 1, end);
    this.draftTokens.copyWithin(at * this.maxDrafts, (at + 1) * this.maxDrafts, end * this.maxDrafts);
    this.kinds.copyWithin(at, at + 1, end);
    this.numRequests = end - 1;
  }

  /** @internal Index of the entry of a request; -1 = none. */
  indexOf(request: Request): number {
    const at = this.requests.indexOf(request);
    return at < this.numRequests ? at : -1;
  }
}
