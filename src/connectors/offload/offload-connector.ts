import { createHash } from 'node:crypto';
import { Anomalies } from '../../base/anomalies.js';
import { parseUint8Array } from '../../base/arrays.js';
import { checkBoolean, checkNumber } from '../../base/checks.js';
import { checkInteger } from '../../base/errors.js';
import type {
  BlockPins,
  ConnectorOutput,
  Finished,
  Match,
  SchedulerConnector,
} from '../../scheduler/connector/connector.js';
import type { BlockLists, ConnectorPlan, HandOver, KvView } from '../../scheduler/connector/kv-view.js';
import type { ConnectorRequest } from '../../scheduler/request/connector-request.js';
import type { FinishReason } from '../../scheduler/request/status.js';
import { Verdict } from '../../transfer/verdict.js';
import { BlockKeys } from '../base/block-keys.js';
import { checkClock, checkOptions } from '../base/option-checks.js';
import { NoPlace, OutgoingBlocks } from '../base/outgoing-blocks.js';
import { needHashes } from '../base/view-needs.js';
import { Matches } from './matches.js';
import { CONNECTOR_OPTIONS, checkBlocks, type OffloadConnectorOptions } from './options.js';
import { DiskBlocks } from './tiers/disk-blocks.js';
import { IncomingBlocks } from './tiers/incoming-blocks.js';
import type { OffloadOrders, OffloadReport } from './tiers/orders.js';
import type { OffloadStats } from './tiers/stats.js';
import { ABSENT, TierIndex } from './tiers/tier-index.js';

const MAX_RANKS = 65_536;
/** Stores may pin 1/4 of the pool, unless the options say otherwise. */
const PINNED_SHARE = 4;
/** Each store wakes a lane's thread, which costs more than copying a block. */
const STORE_EVERY = 8;
const MAX_STORE_EVERY = 1024;
const NOT_NOW: Match = { numTokens: null, async: false, wakes: true };
const NOTHING: Match = { numTokens: 0, async: false };
const FREE_NOW: Finished = { delayFree: false };

/**
 * The scheduler side of an offload: a second tier of KV blocks behind the pool, in host memory, and
 * a third tier on disk. Only this side knows the contents of the tiers' places; the workers copy.
 *
 * Blocks go to the tier while their requests still run, as soon as they are full and settled. They
 * are pinned until every rank has stored them. A request that ends therefore releases all other
 * blocks at once, and no request waits for a store. A later request loads the longest run of blocks
 * that the tier has behind its local prefix, asynchronously.
 *
 * The connector keeps no state of a request that a wrong end could corrupt. An end that comes
 * twice, early, or in the step in which the request's last store ends does no harm.
 */
export class OffloadConnector implements SchedulerConnector<OffloadOrders | null, OffloadReport> {
  readonly protection = 'pin';
  readonly reporters: readonly (readonly number[])[];
  /**
   * The hash seed that the disk tier keeps for schedulers without a configured seed; null without a
   * disk tier.
   */
  readonly hashSeed: Uint8Array | null;
  readonly #index: TierIndex;
  readonly #incoming: IncomingBlocks;
  readonly #disk: DiskBlocks | null;
  readonly #anomalies: Anomalies;
  readonly #maxPinned: number | undefined;
  readonly #storeEvery: number;
  readonly #bytesPerBlock: number[];
  #outgoing!: OutgoingBlocks;
  #view!: KvView;
  #keys!: BlockKeys;
  #matches!: Matches;
  /** Name of the KV cache groups and the number of ranks, in keys on disk. */
  #layout = '';
  /** Handles of requests that were admitted with a load, until the second call after the load. */
  readonly #admitted = new Set<number>();
  readonly #counts = { lookups: 0, hits: 0, hitTokens: 0, stores: 0, storedBlocks: 0, failedStores: 0 };

  /** @throws ERR_BLOCKSTEP_BAD_ARG */
  constructor(options: OffloadConnectorOptions) {
    checkOptions(options, CONNECTOR_OPTIONS);
    const { hostBlocks, numRanks = 1, maxPinnedBlocks, diskBudgetMs, strict = false } = options;
    checkBlocks('hostBlocks', hostBlocks);
    checkInteger('numRanks', numRanks, 1, MAX_RANKS);
    this.hashSeed = options.hashSeed === undefined ? null : parseUint8Array('hashSeed', options.hashSeed);
    if (maxPinnedBlocks !== undefined) checkBlocks('maxPinnedBlocks', maxPinnedBlocks);
    this.#maxPinned = maxPinnedBlocks;
    this.#storeEvery = checkInteger('storeEvery', options.storeEvery ?? STORE_EVERY, 1, MAX_STORE_EVERY);
    this.#anomalies = new Anomalies(checkBoolean('strict', strict));
    const ranks = Array.from({ length: numRanks }, (_, rank) => rank);
    this.reporters = [ranks];
    this.#bytesPerBlock = ranks.map(() => 0);
    this.#index = new TierIndex(hostBlocks, (change, key) =>
      this.#view.tellTier(change, 'CPU', [this.#keys.hashOf(key)], this.#keys.groupOf(key)),
    );
    const wake = (handle: number): unknown => this.#view.wake(handle);
    const shared = { index: this.#index, ranks, anomalies: this.#anomalies, wake };
    this.#incoming = new IncomingBlocks(shared);
    const now = checkClock(options.now);
    this.#disk =
      diskBudgetMs === undefined
        ? null
        : new DiskBlocks({
            ...{ ...shared, now, layout: () => this.#layout },
            budgetMs: checkNumber('diskBudgetMs', diskBudgetMs, 0),
          });
  }

  /** @throws ERR_BLOCKSTEP_BAD_ARG without hashes */
  bind(view: KvView): void {
    needHashes('an OffloadConnector', view);
    this.#view = view;
    this.#keys = new BlockKeys(view);
    const layout = JSON.stringify([view.layout, this.reporters[0].length]);
    this.#layout = createHash('sha256').update(layout).digest('hex').slice(0, 32);
    const [keys, index, incoming, disk] = [this.#keys, this.#index, this.#incoming, this.#disk];
    this.#matches = new Matches({ view, keys, index, incoming, disk });
  }

  bindPins(pins: BlockPins): void {
    this.#outgoing = new OutgoingBlocks({
      view: this.#view,
      pins,
      keys: this.#keys,
      ranks: this.reporters[0],
      maxPinned: this.#maxPinned ?? Math.max(1, Math.floor(this.#view.numBlocks / PINNED_SHARE)),
      anomalies: this.#anomalies,
      reserve: (key) => this.#reserve(key),
      everyPlans: this.#storeEvery,
    });
  }

  onNewRequest(request: ConnectorRequest): void {
    this.#outgoing.track(request);
  }

  getNumNewMatchedTokens(request: ConnectorRequest, numLocalTokens: number): Match {
    const count = this.#matches.find(request, numLocalTokens);
    if (count === null) return NOT_NOW;
    return count === 0 ? NOTHING : { numTokens: count, async: true };
  }

  updateStateAfterAlloc(request: ConnectorRequest, rows: BlockLists, numExternalTokens: number): void {
    const { handle } = request;
    this.#disk?.forget(handle);
    // The second call for one admission: the load is over.
    if (numExternalTokens === 0 && this.#admitted.delete(handle)) return;
    this.#counts.lookups++;
    if (this.#disk !== null) for (const key of this.#matches.wanted(request)) this.#disk.want(key);
    if (numExternalTokens === 0) return;
    const load = this.#matches.toLoad(request, rows, numExternalTokens);
    this.#incoming.begin(handle, load.keys, load.blocks);
    this.#admitted.add(handle);
    this.#matches.changed();
    this.#counts.hits++;
    this.#counts.hitTokens += numExternalTokens;
  }

  buildMetadata(plan: ConnectorPlan): OffloadOrders | null {
    this.#outgoing.observe(plan);
    const store = this.#outgoing.drain();
    const loads = this.#incoming.drain();
    const disk = this.#disk?.drain(plan.totalTokens);
    if (store === null && loads.length === 0 && disk === undefined) return null;
    const stores = store === null ? [] : [{ job: store.job, blocks: store.blocks, places: store.places }];
    this.#counts.stores += stores.length;
    return { hostBlocks: this.#index.numPlaces, stores, loads, ...(disk && { disk }) };
  }

  updateConnectorOutput({ lostBlocks, workerMetadata = [] }: ConnectorOutput<OffloadReport>): void {
    if (lostBlocks !== undefined) this.#outgoing.lose(lostBlocks);
    for (const { rank, metadata } of workerMetadata) {
      const { bytesPerBlock, stores = [], loads = [], disk } = metadata;
      if (bytesPerBlock !== undefined) this.#bytesPerBlock[rank] = bytesPerBlock;
      for (let i = 0; i < stores.length; i += 2) this.#stored(stores[i], rank, stores[i + 1] as Verdict);
      for (let i = 0; i < loads.length; i += 2) this.#loaded(loads[i], rank, loads[i + 1] as Verdict);
      if (disk !== undefined && this.#disk?.report(rank, disk)) this.#matches.changed();
    }
    this.#anomalies.throwFirst();
  }

  /**
   * No request must wait: blocks being stored are pinned, and the scheduler keeps blocks being
   * loaded.
   */
  requestFinished(request: ConnectorRequest, _reason: FinishReason, handOver: HandOver): Finished {
    this.#outgoing.finish(request, handOver);
    this.#incoming.finish(request.handle);
    this.#disk?.finish(request.handle);
    this.#admitted.delete(request.handle);
    this.#matches.forget(request.handle);
    return FREE_NOW;
  }

  /**
   * Empties the tiers. Transfers between host and disk change nothing any more; their places come
   * back when the transfers are over.
   * @returns false if blocks are being copied between the host tier and the pool; the tiers then
   * keep their content
   */
  resetCache(): boolean {
    if (this.#isCopying) return false;
    this.#index.clear();
    this.#disk?.reset();
    this.#matches.changed();
    return true;
  }

  /**
   * Stores that end when no request is left return their pins in an update, so one more update is
   * needed. The disk must also be told of a reset.
   */
  hasPendingWork(): boolean {
    return this.#isCopying || this.#disk?.hasOrders === true;
  }

  /**
   * Returns the contents of the tiers, the hits so far, and the transfers under way. Plain data.
   */
  stats(): OffloadStats {
    const { lookups, hits, hitTokens, stores, storedBlocks, failedStores } = this.#counts;
    const { numBegun, numBlocks, numFailed, numJobs, numWaiting } = this.#incoming;
    const bytesEach = this.#bytesPerBlock.reduce((sum, bytes) => sum + bytes, 0);
    return {
      lookups,
      waiting: numWaiting,
      tracked: this.#admitted.size + (this.#matches?.tracked ?? 0),
      pinnedBlocks: this.#outgoing?.numPinned ?? 0,
      anomalies: this.#anomalies.toObject(),
      host: {
        capacityBlocks: this.#index.numPlaces,
        blocks: this.#index.size,
        bytes: this.#index.size * bytesEach,
        places: this.#index.counts(),
        hits,
        hitTokens,
        loads: { begun: numBegun, blocks: numBlocks, failed: numFailed, inFlight: numJobs },
        stores: {
          begun: stores,
          blocks: storedBlocks,
          failed: failedStores,
          skippedBlocks: this.#outgoing?.numSkipped ?? 0,
          inFlight: this.#outgoing?.numJobs ?? 0,
        },
        evictions: this.#index.numEvictions,
      },
      disk: this.#disk?.stats() ?? null,
    };
  }

  get #isCopying(): boolean {
    return this.#outgoing.numPinned > 0 || this.#incoming.numJobs > 0;
  }

  #reserve(key: bigint): number {
    if (this.#index.get(key) !== ABSENT) return NoPlace.unwanted;
    const place = this.#index.take();
    return place === ABSENT ? NoPlace.later : place;
  }

  #stored(job: number, rank: number, verdict: Verdict): void {
    const over = this.#outgoing.report(job, rank, verdict);
    if (over === null) return;
    const { keys, places } = over;
    if (over.verdict !== Verdict.ok) this.#counts.failedStores++;
    else this.#counts.storedBlocks += keys.length;
    if (over.verdict !== Verdict.ok) {
      for (const place of places) this.#index.giveBack(place);
      return;
    }
    // The last block goes first, so that the beginnings of texts, which more requests share, are
    // evicted last.
    for (let i = keys.length - 1; i >= 0; i--) this.#index.put(keys[i], places[i]);
    if (this.#disk === null) return;
    // The first block goes first: if not all blocks can be written, the written ones are usable. A
    // place may have been given back meanwhile.
    for (let i = 0; i < keys.length; i++) {
      if (this.#index.get(keys[i]) === places[i]) this.#disk.filled(keys[i], places[i]);
    }
  }

  #loaded(job: number, rank: number, verdict: Verdict): void {
    if (this.#incoming.report(job, rank, verdict)) this.#matches.changed();
  }
}
