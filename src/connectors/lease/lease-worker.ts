import { badArg, checkBoolean, checkNumber, isRecord } from '../../base/checks.js';
import { checkInteger } from '../../base/errors.js';
import { knownNames } from '../../base/known-names.js';
import type {
  StoreStep,
  WorkerConnector,
  WorkerOutput,
  WorkerStep,
} from '../../scheduler/connector/connector.js';
import type { LaneFactory } from '../base/kv-lanes.js';
import { checkMemory, type KvMemory } from '../base/kv-memory.js';
import { checkClock, checkLaneFactory, checkOptions } from '../base/option-checks.js';
import { Consumer } from './consumer/consumer.js';
import type { Link } from './link/link.js';
import { Producer } from './producer/producer.js';
import type { LeaseOrders, LeaseSaid, Order } from './wire/orders.js';
import { Post } from './wire/post.js';
import { Staging } from './wire/staging.js';
import { type LeaseWorkerStats, statsOf } from './worker-stats.js';

/** Options of a `LeaseWorker`. */
export interface LeaseWorkerOptions {
  /** The KV memory of the rank. */
  memory: KvMemory;
  /** Carries messages to the workers of other engines. The worker closes it when the engine is disposed. */
  link: Link;
  /** The rank. The worker exchanges KV only with the same rank of other engines. Default 0. */
  rank?: number;
  /**
   * Whether bytes may go over shared memory: the memory of this process, or of a peer whose KV
   * memory is `shared`. Default true. With false, all bytes go in messages.
   */
  sharedMemory?: boolean;
  /**
   * How long a peer may leave a question unanswered before it counts as dead, in milliseconds.
   * Default 5,000.
   */
  peerTimeoutMs?: number;
  /** How long a question waits before it is repeated, in milliseconds. Default 100. */
  retryMs?: number;
  /**
   * How long a silent peer without open business is remembered, in milliseconds. Default 600,000.
   */
  reapMs?: number;
  /**
   * Bytes of staging memory for messages, in each direction. The memory is allocated when the first
   * bytes arrive. Default 64 MiB.
   */
  stagingBytes?: number;
  /** Maximum number of KV bytes in one message. The minimum is one block. Default 1 MiB. */
  pieceBytes?: number;
  /** Returns the milliseconds of a monotonic clock. Default `performance.now`. */
  now?: () => number;
  /** Makes the lanes. Default: host threads, or the GPU if a KV memory is on a GPU. */
  makeLane?: LaneFactory;
}

const OPTIONS = knownNames<LeaseWorkerOptions>('the options of a LeaseWorker', {
  memory: true,
  link: true,
  rank: true,
  sharedMemory: true,
  peerTimeoutMs: true,
  retryMs: true,
  reapMs: true,
  stagingBytes: true,
  pieceBytes: true,
  now: true,
  makeLane: true,
});
const LINK = ['listen', 'send', 'forget', 'stats', 'close'] as const;
const DAY_MS = 24 * 3600 * 1000;
const MAX_BYTES = 2 ** 36;

/**
 * The worker side of a `LeaseConnector`, for one rank. It grants leases to the workers of other
 * engines, and reads their leases.
 *
 * The engine and incoming messages drive the worker; it has no timer. Messages are handled whenever
 * they arrive, so an engine that computes nothing answers too.
 */
export class LeaseWorker implements WorkerConnector<LeaseOrders, LeaseSaid> {
  readonly #link: Link;
  readonly #now: () => number;
  readonly #post: Post;
  readonly #out: Staging;
  readonly #in: Staging;
  readonly #producer: Producer;
  readonly #consumer: Consumer;
  readonly #reapMs: number;
  /** The worker has taken all orders below this number. */
  #taken = 0;
  /** The scheduler side was told that all orders below this number are taken. */
  #told = 0;
  #closed = false;

  /** @throws ERR_BLOCKSTEP_BAD_ARG naming the option */
  constructor(options: LeaseWorkerOptions) {
    checkOptions(options, OPTIONS);
    const { rank = 0, sharedMemory = true, peerTimeoutMs = 5000, retryMs = 100, reapMs = 600_000 } = options;
    const { stagingBytes = 2 ** 26, pieceBytes = 2 ** 20 } = options;
    const memory = checkMemory(options.memory);
    this.#link = checkLink(options.link);
    this.#now = checkClock(options.now);
    const makeLane = checkLaneFactory(options.makeLane, memory);
    this.#reapMs = checkNumber('reapMs', reapMs, 1, 365 * DAY_MS);
    const times = {
      retryMs: checkNumber('retryMs', retryMs, 1, DAY_MS),
      peerTimeoutMs: checkNumber('peerTimeoutMs', peerTimeoutMs, 1, DAY_MS),
      reapMs: this.#reapMs,
    };
    const sizes = [
      checkInteger('stagingBytes', stagingBytes, 1, MAX_BYTES),
      checkInteger('pieceBytes', pieceBytes, 1, 2 ** 30),
    ] as const;
    const maps = checkBoolean('sharedMemory', sharedMemory);
    checkInteger('rank', rank, 0, 65_535);
    this.#post = new Post(this.#link);
    this.#out = new Staging(memory, ...sizes, makeLane);
    this.#in = new Staging(memory, ...sizes, makeLane);
    const own = { memory, post: this.#post, rank, now: this.#now };
    this.#producer = new Producer({ ...own, staging: this.#out, describe: () => describe(memory, maps) });
    this.#consumer = new Consumer({ ...own, ...times, staging: this.#in, makeLane, maps });
    this.#post.listen(
      (peer, envelope) => this.#producer.receive(peer, envelope),
      (peer, envelope, payload) => this.#consumer.receive(peer, envelope, payload),
    );
  }

  startLoads(orders: LeaseOrders | undefined, step: WorkerStep): void {
    if (orders === undefined) return;
    const { settings, life, leaseMs, maxQueueMs, first, orders: list, loads } = orders;
    if (this.#taken === 0 && list.length > 0) {
      this.#producer.begin(settings, { life, leaseMs, maxQueueMs });
      this.#consumer.watches.begin(settings);
    }
    if (list.length === 0 && loads.length === 0) return;
    const now = this.#now();
    for (let i = Math.max(0, this.#taken - first); i < list.length; i++) this.#obey(list[i], now);
    this.#taken = Math.max(this.#taken, first + list.length);
    for (const load of loads) this.#consumer.load(load, step, now);
  }

  onStepSettled(step: number): void {
    this.#producer.grants.settle(step);
    this.#consumer.settle(step);
  }

  startStores(_orders: LeaseOrders | undefined, { failed }: StoreStep): void {
    const { grants } = this.#producer;
    grants.judge(failed, grants.isWaiting ? this.#now() : 0);
  }

  getFinished(): WorkerOutput<LeaseSaid> | null {
    const producer = this.#producer;
    const consumer = this.#consumer;
    const { grants } = producer;
    const isIdle = grants.isIdle && consumer.isIdle && this.#told === this.#taken;
    if (isIdle) return null;
    const now = this.#now();
    producer.tick(now, this.#reapMs);
    consumer.tick(now);
    const { received, failed } = consumer.reads.drainReports();
    const news = consumer.watches.drainNews();
    const renewed = consumer.drainRenewed();
    const sent = grants.drainSent().map((handle) => ({ handle }));
    const kept = grants.drainRenewed().map((handle) => ({ handle }));
    // The scheduler side keeps the engine stepping until its orders are acknowledged. The worker
    // acknowledges them when they are carried out.
    const isDone = this.#told < this.#taken && !consumer.watches.isLeaving;
    const hasNews = news.alive.length + news.doubted.length + news.lost.length > 0 || isDone;
    if (received.length + renewed.length + sent.length + kept.length === 0 && !hasNews) return null;
    const output = {
      finishedReceiving: received,
      failedReceiving: failed,
      finishedSending: sent,
      renewed: [...renewed, ...kept],
    };
    if (!hasNews) return output;
    if (isDone) this.#told = this.#taken;
    return { ...output, metadata: { taken: this.#told, ...news } };
  }

  /**
   * Ends every lease and every read at once. No read of a peer counts any more, and no earlier
   * operation touches the KV memory afterwards. The call waits for copies that have begun. Call it
   * before `Engine.fenceTransfers`.
   */
  fence(): void {
    this.#producer.grants.endAll('the engine was fenced');
    this.#out.fence();
    this.#consumer.fence();
  }

  /** Returns the statistics of the worker and of its peers. */
  stats(): LeaseWorkerStats {
    return statsOf(this.#producer, this.#consumer, this.#post, this.#link, this.#now());
  }

  shutdown(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#producer.leave();
    this.#consumer.leaveAll();
    this.#out.dispose();
    this.#in.dispose();
    this.#link.close();
  }

  #obey(order: Order, now: number): void {
    switch (order.kind) {
      case 'grant':
        this.#producer.grants.grant(order, now);
        break;
      case 'revoke':
        this.#producer.grants.revoke(order.handle, order.atOnce);
        break;
      case 'watch':
        this.#consumer.watch(order, now);
        break;
      case 'forgo':
        this.#consumer.forgo(order.handle, now);
        break;
    }
  }
}

/** Describes the KV memory for a peer that may map it; null = it cannot be mapped. */
function describe({ kv }: KvMemory, maps: boolean): unknown {
  if (!maps) return null;
  try {
    return kv.descriptor;
  } catch {
    return null;
  }
}

function checkLink(link: unknown): Link {
  const isLink = isRecord(link) && typeof link['address'] === 'string';
  if (isLink && LINK.every((name) => typeof link[name] === 'function')) return link as unknown as Link;
  throw badArg('link', link, 'a Link, such as a ZmqLink or a MemoryLink');
}
