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
import type { ConnectorRequest } from '../../scheduler/request/connector-request.js';
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
  /** The addresses of this engine's workers, by rank: the `address` of each worker's link. */
  addresses: readonly string[];
  /** Name of the engine, for people. Default: generated. */
  engineId?: string;
  /**
   * How long blocks are kept without a sign of life of the reading engine, in milliseconds. Default
   * 30,000. The reader gives a sign of life six times in this period. The value must be less than
   * `deadlines.reclaim`.
   */
  leaseMs?: number;
  /**
   * How long a request that is only queued can keep its blocks leased, in milliseconds from the
   * grant on. After that, the request computes its prompt itself. Without this limit, two engines
   * that hand over to each other could wait for each other's blocks forever. Default 10 x
   * `leaseMs`.
   */
  maxQueueMs?: number;
  /**
   * Name and revision of the model. Engines with different names refuse each other's KV. Default
   * empty.
   */
  model?: string;
  /**
   * Type of the KV entries, for instance `bfloat16`. Compared in the same way as `model`. Default
   * empty.
   */
  dtype?: string;
  /**
   * Layout of the KV in a block, for instance `NHD`. Compared in the same way as `model`. Default
   * empty.
   */
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

/** Statistics of a lease connector. Plain data. */
export interface LeaseConnectorStats {
  /** Requests that ended here and whose KV was offered to another engine. */
  readonly offered: number;
  /** Requests that named a prefill of another engine. */
  readonly asked: number;
  /** Requests among `asked` whose transfer params were unreadable. */
  readonly badParams: number;
  /** Requests among `asked` that came from an engine with other settings. */
  readonly otherSettings: number;
  /** Requests among `asked` whose tokens, adapter or salt differ from the offered KV. */
  readonly otherTokens: number;
  /** Requests among `asked` that began to load. */
  readonly loads: number;
  /**
   * Requests among `asked` whose lease was lost before any byte was read. They were computed here.
   */
  readonly lost: number;
  /**
   * Leases that were given back because their request was refused or their params were returned.
   */
  readonly givenBack: number;
  /** Requests among `asked` that found all tokens in the local cache. */
  readonly localHits: number;
  /** Requests that the connector knows now. */
  readonly requests: number;
  /** Orders that some rank has not acknowledged yet. */
  readonly orders: number;
}

/**
 * Prefill/decode disaggregation: hands the KV of finished requests to another engine. This is the
 * scheduler side, both for the engine that computes prompts and for the engine that continues them.
 * One engine may do both.
 *
 * A request with `transferParams: { doRemoteDecode: true }` keeps its blocks under a lease when it
 * ends by stop or length. Its last output carries transfer params for the other engine. A request
 * with these params loads the KV from the first engine.
 */
export class LeaseConnector implements SchedulerConnector<LeaseOrders, LeaseSaid> {
  readonly protection = 'own';
  /** Name of the engine, for people. */
  readonly engineId: string;
  /** Name of this life of the engine. The keys of its leases begin with it. */
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

  /** @throws ERR_BLOCKSTEP_BAD_ARG for a `leaseMs` that `deadlines.reclaim` would cut short */
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

  onNewRequest(request: ConnectorRequest): void {
    if (namesRemotePrefill(request.transferParams)) this.#pulls.begin(request);
  }

  /**
   * Gives back the lease that these params name, whether it belongs to a peer or to this engine.
   */
  requestRefused(transferParams: Readonly<Record<string, unknown>>): void {
    if (namesRemotePrefill(transferParams)) this.#pulls.giveBack(transferParams);
  }

  getNumNewMatchedTokens(request: ConnectorRequest, numLocalTokens: number): Match {
    return this.#pulls.match(request, numLocalTokens) ?? NO_MATCH;
  }

  updateStateAfterAlloc(request: ConnectorRequest, blocks: BlockLists, numExternalTokens: number): void {
    this.#pulls.allocated(request, blocks, numExternalTokens);
  }

  buildMetadata(): LeaseOrders {
    const loads = this.#pulls.drainLoads();
    return this.#log.metadata(this.#heading, loads);
  }

  updateConnectorOutput(output: ConnectorOutput<LeaseSaid>): void {
    const { workerMetadata, lostBlocks, finishedSending, failedReceiving } = output;
    for (const { rank, metadata } of workerMetadata ?? []) {
      this.#log.acknowledge(rank, metadata.taken);
      // In one round, a lease can be in doubt and then be found again or lost.
      for (const handle of metadata.doubted) this.#pulls.doubted(handle, rank);
      for (const handle of metadata.alive) this.#pulls.found(handle, rank);
      for (const handle of metadata.lost) this.#pulls.lost(handle);
    }
    for (const { handle, declined } of failedReceiving ?? []) if (declined) this.#pulls.declined(handle);
    for (const { handle, rank = 0 } of finishedSending ?? [])
      this.#offers.sent(handle, rank, this.#addresses.length);
    if (lostBlocks !== undefined && lostBlocks.length > 0) this.#offers.lose(lostBlocks);
  }

  /** A request whose KV is handed over must have blocks when it ends. */
  requiresKvDelivery({ transferParams }: ConnectorRequest): boolean {
    return wantsRemoteDecode(transferParams);
  }

  requestFinished(request: ConnectorRequest, reason: FinishReason, handOver: HandOver): Finished {
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

  cancelSending({ handle }: ConnectorRequest): void {
    this.#offers.cancel(handle);
  }

  hasPendingWork(): boolean {
    return this.#log.size > 0;
  }

  /** Returns the connector's statistics. A request that is loaded twice counts twice. */
  stats(): LeaseConnectorStats {
    const { numOffered, numOpen } = this.#offers;
    const { counts, size } = this.#pulls;
    return { offered: numOffered, ...counts, requests: size + numOpen, orders: this.#log.size };
  }

  #headingOf(settings: string): Heading {
    return { settings, life: this.#life, leaseMs: this.#leaseMs, maxQueueMs: this.#maxQueueMs };
  }
}
