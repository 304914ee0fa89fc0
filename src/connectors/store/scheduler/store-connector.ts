import { randomBytes } from 'node:crypto';
import { Anomalies } from '../../../base/anomalies.js';
import { BoundedSet } from '../../../base/collections/bounded-set.js';
import { checkInteger } from '../../../base/errors.js';
import { knownNames } from '../../../base/known-names.js';
import type {
  BlockPins,
  ConnectorOutput,
  Finished,
  Match,
  SchedulerConnector,
} from '../../../scheduler/connector/connector.js';
import type { BlockLists, ConnectorPlan, HandOver, KvView } from '../../../scheduler/connector/kv-view.js';
import type { ConnectorRequest } from '../../../scheduler/request/connector-request.js';
import type { FinishReason } from '../../../scheduler/request/status.js';
import { Verdict } from '../../../transfer/verdict.js';
import { BlockKeys } from '../../base/block-keys.js';
import { GroupHits, lastBlocks } from '../../base/group-hits.js';
import { checkClock, checkOptions } from '../../base/option-checks.js';
import { NoPlace, OutgoingBlocks } from '../../base/outgoing-blocks.js';
import { needHashes } from '../../base/view-needs.js';
import { StoreThread } from '../client/store-thread.js';
import type { StoreOptions } from '../stores/store-options.js';
import { type BlockFormat, checkFormat, spaceOf } from './block-names.js';
import { Loading } from './loading.js';
import { Lookups, type Wanted } from './lookups.js';
import type { StoreOrders, StoreSaid } from './store-orders.js';

/** Options of a `StoreConnector`. */
export interface StoreConnectorOptions {
  /** The store that keeps the blocks. The workers get the same options. */
  store: StoreOptions;
  /** The meaning of a block's bytes. */
  format: BlockFormat;
  /** Number of workers of the engine, 1 to 1,024. Default 1. */
  numRanks?: number;
  /**
   * Maximum time that a request waits for the store's answer, in milliseconds. Afterwards it
   * continues with the blocks known until then. Default 50.
   */
  lookupBudgetMs?: number;
  /** Maximum number of blocks that are pinned because they still have to be copied. Default 256. */
  maxPinnedBlocks?: number;
  /**
   * Blocks of decoding requests are stored in every n-th step, 1 to 1,024. A larger value makes a
   * step cheaper and stores later. Prompts are stored at once. Default 8.
   */
  storeEvery?: number;
  /** Milliseconds without an answer after which the store counts as down. Default 1,000. */
  timeoutMs?: number;
  /**
   * First and longest pause after a failure of the store, in milliseconds. Default 100 and 5,000.
   */
  pauseMs?: number;
  maxPauseMs?: number;
  /** The clock, in milliseconds. Default `performance.now`. */
  now?: () => number;
}

const OPTIONS = knownNames<StoreConnectorOptions>('the options of a StoreConnector', {
  store: true,
  format: true,
  numRanks: true,
  lookupBudgetMs: true,
  maxPinnedBlocks: true,
  storeEvery: true,
  timeoutMs: true,
  pauseMs: true,
  maxPauseMs: true,
  now: true,
});
const MAX_MS = 2 ** 31 - 1;
/**
 * Number of hashes that are remembered as stored: 2^20 blocks of 16 tokens are 16 million tokens.
 */
const MOST_KNOWN = 2 ** 20;
const NOTHING: Match = { numTokens: 0, async: false };
const LATER: Match = { numTokens: null, async: false, wakes: true };

/**
 * Scheduler side of a connector that keeps KV blocks in a store outside the engine, by the hash of
 * their content. The store is a file, or a Redis or Valkey server. Computed blocks go there while
 * their requests run. Later requests with the same prefix, in this engine or another one, load
 * them. The store is a cache. Its failures cost hits, but never a request, if `loadFailurePolicy`
 * is `recompute`.
 *
 * The connector never waits for the store. A request whose prefix is being looked up waits for the
 * answer, at most `lookupBudgetMs`. Only settled blocks are stored. They are pinned until every
 * rank has copied them to its staging arena; no request waits for the store itself.
 */
export class StoreConnector implements SchedulerConnector<StoreOrders | null, StoreSaid> {
  readonly protection = 'pin';
  readonly reporters: readonly (readonly number[])[];
  readonly #options: Required<Omit<StoreConnectorOptions, 'store' | 'timeoutMs' | 'pauseMs' | 'maxPauseMs'>>;
  readonly #thread: StoreThread;
  /**
   * Hashes of blocks that this engine stored or found in the store. Other engines may have removed
   * them meanwhile.
   */
  readonly #known = new BoundedSet<bigint>(MOST_KNOWN);
  readonly #anomalies = new Anomalies(false);
  #view!: KvView;
  #keys!: BlockKeys;
  /** With KV cache groups: finds the matches and the blocks to load. */
  #groups: GroupHits | null = null;
  #lookups!: Lookups;
  #loading!: Loading;
  #outgoing!: OutgoingBlocks;
  #space = '';

  /**
   * @throws ERR_BLOCKSTEP_BAD_ARG; ERR_BLOCKSTEP_NO_PACKAGE if the client of the store is not
   * installed; ERR_BLOCKSTEP_BAD_FILE if the file of an embedded store cannot be used. A server
   * that is down is no error.
   */
  constructor(options: StoreConnectorOptions) {
    checkOptions(options, OPTIONS);
    const { store, timeoutMs = 1000, pauseMs = 100, maxPauseMs = 5000 } = options;
    const { numRanks = 1, lookupBudgetMs = 50, maxPinnedBlocks = 256, storeEvery = 8 } = options;
    checkInteger('numRanks', numRanks, 1, 1024);
    checkInteger('lookupBudgetMs', lookupBudgetMs, 1, MAX_MS);
    checkInteger('maxPinnedBlocks', maxPinnedBlocks, 1, 2 ** 24);
    checkInteger('storeEvery', storeEvery, 1, 1024);
    const now = checkClock(options.now);
    this.#options = {
      format: checkFormat(options.format),
      numRanks,
      lookupBudgetMs,
      maxPinnedBlocks,
      storeEvery,
      now,
    };
    this.reporters = [Array.from({ length: numRanks }, (_, rank) => rank)];
    this.#thread = new StoreThread({ store, timeoutMs, pauseMs, maxPauseMs, now });
  }

  /**
   * The hash seed that an embedded store keeps in its file for schedulers without a configured
   * seed; null with another store.
   */
  get hashSeed(): Uint8Array | null {
    return this.#thread.hashSeed;
  }

  /**
   * Returns statistics of the lookups, the loads, the stores, and the state of the store. Plain
   * data.
   */
  stats() {
    const { begun, late } = this.#lookups?.counts ?? { begun: 0, late: 0 };
    return {
      lookups: begun,
      lateLookups: late,
      /** Requests that wait for the store's answer, or to be admitted with its blocks. */
      openLookups: this.#lookups?.size ?? 0,
      /** With KV cache groups: requests that got an offer and have not been admitted since. */
      offered: this.#groups?.size ?? 0,
      ...this.#loading?.counts,
      pinnedBlocks: this.#outgoing?.numPinned ?? 0,
      skippedBlocks: this.#outgoing?.numSkipped ?? 0,
      knownBlocks: this.#known.size,
      store: this.#thread.stats(),
      anomalies: this.#anomalies.toObject(),
    };
  }

  bind(view: KvView): void {
    needHashes('a StoreConnector', view);
    const { format, numRanks, lookupBudgetMs: budgetMs, now } = this.#options;
    this.#view = view;
    this.#keys = new BlockKeys(view);
    if (view.layout !== '') this.#groups = new GroupHits(view, this.#keys);
    this.#space = spaceOf(format, view, numRanks);
    const space = (): string => this.#space;
    this.#lookups = new Lookups({
      view,
      thread: this.#thread,
      known: this.#known,
      numRanks,
      space,
      now,
      budgetMs,
    });
    this.#loading = new Loading({
      view,
      ranks: this.reporters[0],
      known: this.#known,
      anomalies: this.#anomalies,
    });
  }

  bindPins(pins: BlockPins): void {
    this.#outgoing = new OutgoingBlocks({
      view: this.#view,
      pins,
      keys: this.#keys,
      ranks: this.reporters[0],
      maxPinned: this.#options.maxPinnedBlocks,
      everyPlans: this.#options.storeEvery,
      anomalies: this.#anomalies,
      reserve: (hash) => (this.#thread.accepts && !this.#known.has(hash) ? 0 : NoPlace.unwanted),
    });
  }

  onNewRequest(request: ConnectorRequest): void {
    this.#outgoing.track(request);
  }

  getNumNewMatchedTokens(request: ConnectorRequest, numLocalTokens: number): Match {
    if (this.#groups !== null) return this.#matchGroups(this.#groups, request, numLocalTokens);
    const { blockSize } = this.#view;
    const first = Math.floor(numLocalTokens / blockSize);
    // The last token is always computed, because sampling needs it.
    const end = Math.floor((request.numTokens - 1) / blockSize);
    if (first >= end || first * blockSize !== numLocalTokens) return NOTHING;
    // The request that loads these blocks now leaves them in the pool, where this request finds
    // them without a transfer.
    if (this.#loading.awaits(request, this.#view.blockHash(request, first))) return LATER;
    const count = this.#lookups.ask(request, first, end);
    if (count === null) return LATER;
    return count === 0 ? NOTHING : { numTokens: count * blockSize, async: true };
  }

  updateStateAfterAlloc(request: ConnectorRequest, rows: BlockLists, numExternalTokens: number): void {
    this.#lookups.drop(request.handle);
    if (numExternalTokens === 0) return;
    const load =
      this.#groups?.toLoad(request, rows, numExternalTokens) ??
      lastBlocks(this.#view, request, rows, numExternalTokens);
    this.#loading.begin(request, load);
  }

  buildMetadata(plan: ConnectorPlan): StoreOrders | null {
    this.#thread.drain();
    this.#lookups.expire();
    // While the store is down, no request is examined. Requests that still run are examined when it
    // is back.
    if (this.#thread.accepts) this.#outgoing.observe(plan);
    const loads = this.#loading.drain();
    const outgoing = this.#outgoing.drain();
    if (loads.length === 0 && outgoing === null) return null;
    const { bytesPerBlock } = this.#options.format;
    const store = outgoing && { job: outgoing.job, hashes: outgoing.keys, blocks: outgoing.blocks };
    return { space: this.#space, bytesPerBlock, loads, store };
  }

  updateConnectorOutput({ workerMetadata = [], lostBlocks = [] }: ConnectorOutput<StoreSaid>): void {
    if (lostBlocks.length > 0) this.#outgoing.lose(lostBlocks);
    for (const { rank, metadata } of workerMetadata) {
      for (const { job, verdict } of metadata.copied) {
        const over = this.#outgoing.report(job, rank, verdict);
        if (over?.verdict === Verdict.ok) for (const hash of over.keys) this.#known.add(hash);
      }
      for (const hash of metadata.unstored) this.#known.delete(hash);
      for (const { job, numGood } of metadata.loaded) this.#loading.report(job, rank, numGood);
    }
  }

  requestFinished(request: ConnectorRequest, _reason: FinishReason, handOver: HandOver): Finished {
    this.#lookups.drop(request.handle);
    this.#loading.forget(request.handle);
    this.#groups?.forget(request.handle);
    this.#outgoing.finish(request, handOver);
    return { delayFree: false };
  }

  /**
   * After a reset, this engine finds no earlier blocks, and other engines find no later blocks of
   * this engine. The blocks of other engines stay. The result is false while a transfer is under
   * way. The load of an ended request does not count: no request finds its blocks, and after a
   * fence its report may never come.
   */
  resetCache(): boolean {
    if (this.#outgoing.numPinned + this.#loading.numAwaited + this.#lookups.numAsking > 0) return false;
    const { format, numRanks } = this.#options;
    this.#space = spaceOf(format, this.#view, numRanks, randomBytes(8).toString('hex'));
    this.#known.clear();
    return true;
  }

  /** Collected blocks need one more plan, and pins last until the workers were asked. */
  hasPendingWork(): boolean {
    return this.#outgoing.numPinned > 0;
  }

  #matchGroups(groups: GroupHits, request: ConnectorRequest, numLocalTokens: number): Match {
    const wanted = (): Wanted[] => [...groups.wanted(request, numLocalTokens, request.numTokens - 1)];
    const has = this.#lookups.askGroups(request, numLocalTokens, wanted);
    // The request that loads a block now leaves it in the pool, where this request finds it without
    // a transfer.
    if (has === 'later') return LATER;
    if (has === 'nothing') return NOTHING;
    const hasNow = (key: bigint): boolean | null => (this.#loading.awaits(request, key) ? null : has(key));
    // Blocks that a lookup has found stay found.
    const version = this.#lookups.counts.begun + this.#loading.numBegun;
    const count = groups.match(request, numLocalTokens, hasNow, version);
    if (count === null) return LATER;
    return count === 0 ? NOTHING : { numTokens: count, async: true };
  }

  shutdown(): void {
    void this.#thread.close();
  }
}
