import { INSPECT, showFacts } from '../../base/inspect.js';
import type { Frame } from '../../core/core.js';
import type { Request } from '../request/request.js';
import { FinishCode } from '../request/status.js';
import { planFacts } from './plan-facts.js';
import type { SyncLoad } from './sync-load.js';

/** Number of the step of what was never scheduled: not the one before any step. */
export const NEVER = -2;

const NO_BLOCKS = new Int32Array(0);

/** How an entry came into a plan: still running, admitted for the first time, or admitted again after a preemption. */
export const EntryKind = { running: 0, new: 1, resumed: 2 } as const;
export type EntryKind = (typeof EntryKind)[keyof typeof EntryKind];

/**
 * What one step computes (vLLM's SchedulerOutput), as flat arrays in batch order: the requests that were running, in
 * their order, then those admitted. Entry i of every array belongs to `requests[i]`, for i < `numRequests`.
 *
 * The object is reused: its content is valid from `schedule()` until the `schedule()` after its `update()`.
 */
export class Plan {
  /** Number of the step, from 0. */
  step = NEVER;
  /** Entries in this plan. */
  numRequests = 0;
  /** Tokens of all entries; 0 = nothing to execute. */
  totalTokens = 0;
  readonly requests: Request[] = [];
  /** `EntryKind` of each entry. */
  readonly kinds: Uint8Array;
  /** Slot of each request in the native request table. */
  readonly slots: Int32Array;
  /** Tokens to compute, drafts included. */
  readonly numScheduledTokens: Int32Array;
  /** Tokens whose KV exists before this step. */
  readonly numComputedTokens: Int32Array;
  /** Blocks of the request, this step's included. */
  readonly numBlocks: Int32Array;
  /** The last so many of them are new in this step; of a new or resumed request all are. */
  readonly numNewBlocks: Int32Array;
  /**
   * Of an entry that was admitted: its leading blocks that it did not take from the pool in this step. They are its cached
   * prefix, or, of a request that held blocks while it waited (for a load, for the next chunk), all of these. Of a running
   * entry it says nothing.
   */
  readonly numHitBlocks: Int32Array;
  /** Draft tokens among the scheduled ones. */
  readonly numDraftTokens: Int32Array;
  /** Draft tokens of entry i from i * maxDrafts on; -1 where a step in flight makes them. */
  readonly draftTokens: Int32Array;
  /** Draft tokens a request can have. */
  readonly maxDrafts: number;
  /** 1: not scheduled in the step before, so a worker that mirrors tokens needs the whole list. */
  readonly needsAllTokens: Uint8Array;
  /** Most tokens that each entry can bring: 0 while known tokens of it remain to be computed, else 1 and its drafts. */
  readonly maxOutputTokens: Uint8Array;
  /** Drafts of each entry that its grammar refused after they were scheduled (`Scheduler.replaceDraftTokens`). */
  readonly numInvalidDraftTokens: Uint8Array;
  /** @internal The sum of these. */
  numInvalidDrafts = 0;
  /**
   * Steps are pipelined, and what an entry with a grammar may sample depends on tokens that a step in flight makes. Such
   * a plan may be computed at once, but is sampled only when every plan before it was updated.
   */
  pendingStructuredOutputTokens = false;
  /** External ids of the requests preempted by this step, in order, and their handles. */
  preempted: string[] = [];
  preemptedHandles: number[] = [];
  /**
   * External ids under which requests finished since the plan before, each once (vLLM's finished_req_ids, a set): an id can have
   * been used more than once since, and may be that of a new request of this plan.
   */
  finished: string[] = [];
  /** Handles of all requests that finished since the plan before, in the order in which they ended. */
  finishedHandles: number[] = [];
  /**
   * With a connector: handles of the requests that gave their blocks back since the plan before, and go on: preempted ones,
   * by whatever cause, and those that waited with blocks which others needed.
   */
  releasedHandles: number[] = [];
  /** What the connector's scheduler side says to its workers; undefined without a connector, or if it failed. */
  connectorMetadata: unknown = undefined;
  /**
   * With protection `fence` or `reportBlocks`: blocks that this plan, or a load that it begins, took from the pool
   * (`BlockReuse.taken`). What they held before is gone.
   */
  takenBlocks: Int32Array = NO_BLOCKS;
  /**
   * With `reportBlocks`: blocks whose hashes were taken since the plan before, so that nobody finds what they hold now: by a
   * reset of the prefix cache, a failed step or load, a session's dropped token. Blocks that had no hash may be among them.
   */
  forgottenBlocks: Int32Array = NO_BLOCKS;
  /** @internal The blocks of each asynchronous load that it begins. */
  loadedBlocks: Int32Array[] = [];
  /** @internal Loads that must be there when the plan is executed. */
  syncLoads: SyncLoad[] = [];
  /** @internal Blocks of these that are known not to have come, and are still theirs; its update has to know. */
  readonly missing = new Set<number>();
  /** Leading blocks that all requests holding blocks share (0 with prefix caching off). */
  numCommonPrefixBlocks = 0;

  /** @internal Frame of the exchange buffer behind the shared arrays. */
  readonly frame: number;
  /** @internal Drafts that each entry may be given for its next step. */
  readonly maxNextDrafts: Uint8Array;
  /** @internal 1: what this entry brings is dropped, because the request was preempted by force meanwhile. */
  readonly dropped: Uint8Array;
  /** @internal 1: the KV of this entry is not to be stored, though the entry was not dropped; see `failedHandles`. */
  readonly spoiled: Uint8Array;
  /** @internal The connector, or a child of it, could not make its metadata: what it is to begin comes with a later plan. */
  lacksMetadata = false;
  /** @internal Requests whose newly filled blocks the plan's update can publish; empty but in its update. */
  readonly settled: Request[] = [];
  /** @internal Requests that are to give their blocks back in the plan's update and be computed again; empty but in it. */
  readonly sentBack: Request[] = [];
  /** @internal */
  inFlight = false;
  /** @internal It was handed out and not updated since, nor given up: see `Scheduler.schedule`. */
  awaitsUpdate = false;
  /**
   * @internal For a plan that is executed later: the tokens that its requests had when they ended, or when another chunk of
   * their session began. Null for any other plan.
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
    this.numHitBlocks = new Int32Array(capacity);
    this.numDraftTokens = new Int32Array(capacity);
    this.draftTokens = new Int32Array(capacity * maxDrafts);
    this.needsAllTokens = new Uint8Array(capacity);
    this.maxOutputTokens = new Uint8Array(capacity);
    this.maxNextDrafts = new Uint8Array(capacity).fill(maxDrafts);
    this.dropped = new Uint8Array(capacity);
    this.spoiled = new Uint8Array(capacity);
    this.numInvalidDraftTokens = new Uint8Array(capacity);
  }

  /**
   * Generated tokens of entry i, those expected from steps in flight included (vLLM num_output_tokens of the plan).
   * Valid until the next call of the scheduler.
   */
  numOutputTokens(i: number): number {
    const request = this.requests[i];
    const ofThisStep = request.numOutputPlaceholders === 0 ? 0 : this.maxOutputTokens[i];
    return request.numOutputTokens + request.numOutputPlaceholders - ofThisStep;
  }

  /**
   * The entries whose tokens a grammar constrains now, ascending: those to be sampled whose request is unfinished (vLLM
   * get_grammar_bitmask). Each stands for 1 + numDraftTokens rows of a bitmask, one for every token it may bring, in this
   * order: what the grammar allows after the drafts before it. Empty: nothing is constrained. Allocates.
   *
   * With `skipEndedBitmasks` off, as in vLLM, also those whose request has ended while its blocks are still sent.
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
   * Handles of the requests whose KV of this step must not be stored. Valid from the plan's update on. Such a request has
   * an entry that failed, alone or with its step; or its output was dropped; or it ended with `error`, because an earlier
   * step or a load failed; or it read KV that a failed entry or a failed load left wrong. With a connector of protection
   * `fence` also a request that ended before the update: its blocks may be somebody else's by now. Allocates.
   */
  failedHandles(): number[] {
    const handles: number[] = [];
    for (let i = 0; i < this.numRequests; i++) {
      const { handle, finishCode } = this.requests[i];
      const failed = this.dropped[i] + this.spoiled[i] > 0 || finishCode === FinishCode.error;
      if (failed) handles.push(handle);
    }
    return handles;
  }

  [INSPECT](depth: number, options: object): string {
    return showFacts('Plan', depth, options, planFacts(this));
  }

  /** @internal What this step computed for a request is not to be stored. */
  spoil(request: Request): void {
    const at = this.indexOf(request);
    if (at >= 0) this.spoiled[at] = 1;
  }

  /** Whether something is loaded that the step itself reads, so that it may be executed only behind all steps before it. */
  get hasSyncLoads(): boolean {
    return this.syncLoads.length > 0;
  }

  /** @internal Empties the plan for the given step. */
  begin(step: number): void {
    this.lacksMetadata = false;
    this.step = step;
    this.totalTokens = 0;
    this.numCommonPrefixBlocks = 0;
    this.dropped.fill(0, 0, this.numRequests);
    this.spoiled.fill(0, 0, this.numRequests);
    if (this.numInvalidDrafts > 0) this.numInvalidDraftTokens.fill(0);
    this.numInvalidDrafts = 0;
    this.pendingStructuredOutputTokens = false;
    this.numRequests = 0;
    // The lists are the caller's once they were handed out.
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
    this.forgottenBlocks = NO_BLOCKS;
    this.connectorMetadata = undefined;
    if (this.missing.size > 0) this.missing.clear();
    this.keptTokens = null;
  }

  /**
   * @internal Appends an entry; its drafts and blocks are the caller's. From now on its tokens count as computed, before
   * they are (vLLM `_update_after_schedule`): the next step may be planned while this one runs.
   */
  push(request: Request, numScheduled: number, kind: EntryKind): number {
    const i = this.numRequests++;
    // In steady decode the same request stands here already, and a store of an object costs more than a comparison.
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

  /** @internal Drops the entries from `length` on; their tokens do not count as computed any more. */
  truncate(length: number): void {
    for (let i = length; i < this.numRequests; i++) {
      this.totalTokens -= this.numScheduledTokens[i];
      this.requests[i].numComputedTokens = this.numComputedTokens[i];
    }
    this.numRequests = length;
  }

  /** @internal Takes entry `at` out; later entries move up. Its request is about to be preempted. */
  removeEntry(at: number): void {
    this.totalTokens -= this.numScheduledTokens[at];
    const end = this.numRequests;
    this.requests.splice(at, 1);
    for (const column of [this.slots, this.numScheduledTokens, this.numComputedTokens, this.numBlocks]) {
      column.copyWithin(at, at + 1, end);
    }
    this.numNewBlocks.copyWithin(at, at + 1, end);
    this.numHitBlocks.copyWithin(at, at + 1, end);
    this.maxOutputTokens.copyWithin(at, at + 1, end);
    this.numDraftTokens.copyWithin(at, at + 1, end);
    this.draftTokens.copyWithin(at * this.maxDrafts, (at + 1) * this.maxDrafts, end * this.maxDrafts);
    this.kinds.copyWithin(at, at + 1, end);
    this.numRequests = end - 1;
  }

  /** @internal Entry of a request, or -1. */
  indexOf(request: Request): number {
    const at = this.requests.indexOf(request);
    return at < this.numRequests ? at : -1;
  }
}
