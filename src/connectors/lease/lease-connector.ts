import { randomBytes } from 'node:crypto';
import { badArg, checkName, checkNumber, isList } from '../../base/checks.js';
import { knownNames } from '../../base/known-names.js';
import type {
  ConnectorOutput,
  Finished,
  Match,
  SchedulerConnector,
} from '../../scheduler/connector/connector.js';
import type { BlockLists, HandOver, KvView } from '../../scheduler/connector/kv-view.js';
import type { Request } from '../../scheduler/request/request.js';
import type { FinishReason } from '../../scheduler/request/status.js';
import { checkOptions } from '../base/option-checks.js';
import { Pulls } from './consumer/pulls.js';
import { Offers } from './producer/offers.js';
import {
  MAX_LEASE_MS,
  MAX_TEXT,
  namesRemotePrefill,
  settingsDigest,
  wantsRemoteDecode,
} from './wire/hand-over.js';
import { PROTOCOL } from './wire/messages.js';
import { type Heading, OrderLog } from './wire/order-log.js';
import type { LeaseOrders, LeaseSaid } from './wire/orders.js';

/** Options of a `LeaseConnector`. */
export interface LeaseConnectorOptions {
  /** Where the workers of this engine are reached, by rank: the `address` of each worker's link. */
  addresses: readonly string[];
  /** Name of the engine, for people. Default: made up. */
  engineId?: string;
  /**
   * How long blocks stay without a sign of life of the engine that is to read them, in milliseconds. Default 30,000. The
   * reader gives a sign every sixth of it. It must be less than `deadlines.reclaim`.
   */
  leaseMs?: number;
  /**
   * How long the signs of life of a request that only queues keep its blocks, in milliseconds from the grant on. Behind
   * it the request computes its prompt itself. Without a bound two engines that hand over to each other could wait for
   * each other's blocks for ever. Default 10 x `leaseMs`.
   */
  maxQueueMs?: number;
  /** Name of the model and its revision. Engines with different names refuse each other's KV. Default empty. */
  model?: string;
  /** Type of the KV entries, for instance `bfloat16`; compared as `model` is. Default empty. */
  dtype?: string;
  /** How KV lies in a block, for instance `NHD`; compared as `model` is. Default empty. */
  layout?: string;
}

const OPTIONS = knownNames<LeaseConnectorOptions>('the options of a LeaseConnector', {
  addresses: true,
  engineId: true,
  leaseMs: true,
  maxQueueMs: true,
  model: true,
  dtype: true,
  layout: true,
});
const NO_MATCH: Match = { numTokens: 0, async: false };

/** What a lease connector has done so far. Plain data. */
export interface LeaseConnectorStats {
  /** Requests that ended here and whose KV was offered to another engine. */
  readonly offered: number;
  /** Requests that named a prefill of another engine. */
  readonly asked: number;
  /** Of these, requests whose transfer params were unreadable. */
  readonly badParams: number;
  /** Of these, requests of an engine with other settings. */
  readonly otherSettings: number;
  /** Of these, requests whose tokens, adapter or salt are others than those whose KV is offered. */
  readonly otherTokens: number;
  /** Of these, requests that began to load. */
  readonly loads: number;
  /** Of these, requests whose lease was lost before a byte of it was read: computed here. */
  readonly lost: number;
  /** Leases of requests that were refused, or of params that were given back. */
  readonly givenBack: number;
  /** Of these, requests that found everything in the local cache. */
  readonly localHits: number;
  /** Requests that the connector knows now. */
  readonly requests: number;
  /** Orders that some rank has not acknowledged yet. */
  readonly orders: number;
}

/**
 * Hands the KV of finished requests to another engine: the scheduler side, for the engine that computes prompts and for the
 * one that goes on with them. One engine may do both.
 *
 * A request with `transferParams: { doRemoteDecode: true }` keeps its blocks under a lease when it ends by stop or length.
 * Its last output carries transfer params for the other engine. A request with these params loads the KV from there.
 */
export class LeaseConnector implements SchedulerConnector<LeaseOrders, LeaseSaid> {
  readonly protection = 'own';
  /** Name of the engine, for people. */
  readonly engineId: string;
  /** Names this life of the engine: the keys of its leases begin with it. */
  readonly #life = randomBytes(9).toString('base64url');
  readonly #addresses: readonly string[];
  readonly #leaseMs: number;
  readonly #maxQueueMs: number;
  readonly #names: Readonly<Record<string, string>>;
  readonly #log: OrderLog;
  readonly #offers: Offers;
  readonly #pulls: Pulls;
  #heading: Heading;

  /** @throws ERR_BLOCKSTEP_BAD_ARG naming the option */
  constructor(options: LeaseConnectorOptions) {
    checkOptions(options, OPTIONS);
    const { addresses, engineId, leaseMs = 30_000, maxQueueMs = 10 * leaseMs } = options;
    const { model = '', dtype = '', layout = '' } = options;
    const isAddress = (value: unknown) =>
      typeof value === 'string' && value !== '' && value.length <= MAX_TEXT;
    if (!isList(addresses, isAddress) || addresses.length === 0) {
      throw badArg('addresses', addresses, 'a list of the address of each rank, at least one');
    }
    this.#addresses = [...addresses] as string[];
    this.engineId =
      engineId === undefined ? this.#life : checkName('engineId', engineId, 1).slice(0, MAX_TEXT);
    this.#leaseMs = checkNumber('leaseMs', leaseMs, 1, MAX_LEASE_MS);
    this.#maxQueueMs = checkNumber('maxQueueMs', maxQueueMs, 1, 100 * MAX_LEASE_MS);
    this.#names = {
      model: checkName('model', model, 0),
      dtype: checkName('dtype', dtype, 0),
      layout: checkName('layout', layout, 0),
    };
    this.#heading = this.#headingOf('');
    this.#log = new OrderLog(this.#addresses.length);
    this.#offers = new Offers(this.#life, this.#log);
    this.#pulls = new Pulls(this.#addresses.length, this.#log);
  }

  /** @throws ERR_BLOCKSTEP_BAD_ARG for a lease that `deadlines.reclaim` would cut short */
  bind(view: KvView): void {
    const { blockSize, numGroups, layout: groups, reclaimMs } = view;
    if (reclaimMs > 0 && this.#leaseMs >= reclaimMs)
      throw badArg('leaseMs', this.#leaseMs, `less than deadlines.reclaim, which is ${reclaimMs}`);
    const numRanks = this.#addresses.length;
    const facts = { protocol: PROTOCOL, blockSize, numGroups, groups, numRanks };
    const settings = settingsDigest({ ...facts, ...this.#names });
    this.#heading = this.#headingOf(settings);
    this.#offers.view = view;
    this.#pulls.bind(view, settings);
  }

  onNewRequest(request: Request): void {
    if (namesRemotePrefill(request.transferParams)) this.#pulls.begin(request);
  }

  /** Gives the lease back that these params name: of a peer, or of this engine. */
  requestRefused(transferParams: Readonly<Record<string, unknown>>): void {
    if (namesRemotePrefill(transferParams)) this.#pulls.giveBack(transferParams);
  }

  getNumNewMatchedTokens(request: Request, numLocalTokens: number): Match {
    return this.#pulls.match(request, numLocalTokens) ?? NO_MATCH;
  }

  updateStateAfterAlloc(request: Request, blocks: BlockLists, numExternalTokens: number): void {
    this.#pulls.allocated(request, blocks, numExternalTokens);
  }

  buildMetadata(): LeaseOrders {
    const loads = this.#pulls.takeLoads();
    return this.#log.metadata(this.#heading, loads);
  }

  updateConnectorOutput(output: ConnectorOutput<LeaseSaid>): void {
    const { workerMetadata, lostBlocks, finishedSending, failedReceiving } = output;
    for (const { rank, metadata } of workerMetadata ?? []) {
      this.#log.acknowledge(rank, metadata.taken);
      // In one round a lease can be doubted, and found again or lost.
      for (const handle of metadata.doubted) this.#pulls.doubted(handle, rank);
      for (const handle of metadata.alive) this.#pulls.found(handle, rank);
      for (const handle of metadata.lost) this.#pulls.lost(handle);
    }
    for (const { handle, declined } of failedReceiving ?? []) if (declined) this.#pulls.declined(handle);
    for (const { handle, rank = 0 } of finishedSending ?? [])
      this.#offers.sent(handle, rank, this.#addresses.length);
    if (lostBlocks !== undefined && lostBlocks.length > 0) this.#offers.lose(lostBlocks);
  }

  /** A request whose KV is to be handed over must have blocks when it ends. */
  requiresKvDelivery({ transferParams }: Request): boolean {
    return wantsRemoteDecode(transferParams);
  }

  requestFinished(request: Request, reason: FinishReason, handOver: HandOver): Finished {
    this.#pulls.end(request);
    const isGood = reason === 'stop' || reason === 'length';
    if (!isGood || !wantsRemoteDecode(request.transferParams)) return { delayFree: false };
    const offered = this.#offers.offer(request, handOver);
    if (offered === null) return { delayFree: false };
    const transferParams = {
      doRemotePrefill: true,
      remoteEngineId: this.engineId,
      remoteRequestId: offered.key,
      remoteAddresses: this.#addresses,
      settings: this.#heading.settings,
      leaseMs: this.#leaseMs,
      extents: offered.extents,
    };
    return { delayFree: true, transferParams };
  }

  cancelSending({ handle }: Request): void {
    this.#offers.cancel(handle);
  }

  hasPendingWork(): boolean {
    return this.#log.size > 0;
  }

  /** What the connector has done so far. A request that is loaded twice, after two lives, counts twice. */
  stats(): LeaseConnectorStats {
    const { numOffered, numOpen } = this.#offers;
    const { counts, size } = this.#pulls;
    return { offered: numOffered, ...counts, requests: size + numOpen, orders: this.#log.size };
  }

  #headingOf(settings: string): Heading {
    return { settings, life: this.#life, leaseMs: this.#leaseMs, maxQueueMs: this.#maxQueueMs };
  }
}
