import type { Encoder } from '@msgpack/msgpack';
import type { Publisher, Router } from 'zeromq';
import { badArg } from '../base/checks.js';
import { describeError } from '../base/errors.js';
import { optionalPackage } from '../base/packages/optional-package.js';
import type { KvEvent, KvEventSink } from '../scheduler/events/kv-event.js';
import {
  isBound,
  type KvEventPublisherOptions,
  type ParsedPublisherOptions,
  parsePublisherOptions,
} from './options.js';
import { ReplayBuffer } from './replay-buffer.js';
import { seqBytes } from './seq-bytes.js';
import { serveReplays } from './serve-replays.js';
import { wireBatch } from './wire.js';

const WHAT = 'a KvEventPublisher';

/** Counts of a publisher since it was opened. */
export interface KvEventPublisherStats {
  /** Batches so far, which is the number of the next batch. */
  readonly batches: number;
  /**
   * Batches that were dropped, because too many waited, or because they could not be sent.
   * Subscribers see a gap in the numbers.
   */
  readonly dropped: number;
  /** Batches that wait to be published. */
  readonly waiting: number;
  /**
   * Requests for a replay, and replays that ended early, because the subscriber was too slow or
   * gone.
   */
  readonly replays: number;
  readonly failedReplays: number;
}

interface Waiting {
  readonly seq: number;
  readonly events: readonly KvEvent[];
  readonly seconds: number;
}

/**
 * Publishes KV cache events as vLLM does. They tell routers for vLLM (llm-d, Dynamo, the Gateway
 * API's endpoint picker) which prefixes an engine has. Pass the publisher to an engine as `kvEvents`.
 *
 * ```ts fragment
 * const kvEvents = await KvEventPublisher.open({ endpoint: 'tcp://*:5557', replayEndpoint: 'tcp://*:5558' });
 * const engine = new Engine({ executor, numBlocks, kvEvents });
 * // when the engine has ended
 * await kvEvents.close();
 * ```
 *
 * A message has three frames: topic, number of the batch (8 bytes, big endian, from 0), and the batch
 * in MessagePack. The engine's step only queues events. They are encoded and sent between two turns
 * of the event loop. Needs the packages `zeromq` and `@msgpack/msgpack`.
 */
export class KvEventPublisher implements KvEventSink {
  readonly report: 'new' | 'all';
  readonly #options: ParsedPublisherOptions;
  readonly #socket: Publisher;
  readonly #router: Router | null;
  readonly #encoder: Encoder;
  readonly #buffer: ReplayBuffer;
  readonly #topic: Buffer;
  readonly #replays = { asked: 0, failed: 0 };
  #waiting: Waiting[] = [];
  /** Batches that are queued and not sent yet. */
  #numWaiting = 0;
  #seq = 0;
  #dropped = 0;
  #isClosed = false;
  #sending: Promise<void> | null = null;

  private constructor(
    options: ParsedPublisherOptions,
    socket: Publisher,
    router: Router | null,
    encoder: Encoder,
  ) {
    this.report = options.report;
    this.#options = options;
    this.#socket = socket;
    this.#router = router;
    this.#encoder = encoder;
    this.#buffer = new ReplayBuffer(options.bufferSteps);
    this.#topic = Buffer.from(options.topic);
    if (router !== null) {
      void serveReplays(router, {
        buffer: this.#buffer,
        topic: options.eventFormat === 'map' ? this.#topic : null,
        counts: this.#replays,
      });
    }
  }

  /**
   * Opens the sockets.
   * @throws by rejection ERR_BLOCKSTEP_BAD_ARG, also for an address that cannot be bound;
   * ERR_BLOCKSTEP_NO_PACKAGE without `zeromq` or `@msgpack/msgpack`
   */
  static async open(options: KvEventPublisherOptions = {}): Promise<KvEventPublisher> {
    const parsed = parsePublisherOptions(options);
    const zmq = await optionalPackage<typeof import('zeromq')>('zeromq', '^6.8.0', WHAT);
    const { Encoder } = await optionalPackage<typeof import('@msgpack/msgpack')>(
      '@msgpack/msgpack',
      '^3.1.3',
      WHAT,
    );
    const { endpoint, replayEndpoint, hwm } = parsed;
    const socket = new zmq.Publisher({ sendHighWaterMark: hwm, linger: 0 });
    // A subscriber that leaves or does not read must not block the others forever.
    const router =
      replayEndpoint === null ? null : new zmq.Router({ mandatory: true, sendTimeout: 5000, linger: 0 });
    try {
      if (isBound(endpoint)) await bind('endpoint', socket, endpoint);
      else socket.connect(endpoint);
      if (router !== null && replayEndpoint !== null) await bind('replayEndpoint', router, replayEndpoint);
    } catch (error) {
      socket.close();
      router?.close();
      throw error;
    }
    return new KvEventPublisher(parsed, socket, router, new Encoder({ useBigInt64: true }));
  }

  /** The addresses of both sockets, with their real ports. */
  get endpoints(): { readonly events: string; readonly replay: string | null } {
    const { endpoint, replayEndpoint } = this.#options;
    return {
      events: this.#socket.lastEndpoint ?? endpoint,
      replay: this.#router === null ? null : (this.#router.lastEndpoint ?? replayEndpoint),
    };
  }

  /** Queues a batch; called by the scheduler. */
  onEvents(events: readonly KvEvent[]): void {
    if (this.#isClosed) return;
    const seq = this.#seq++;
    if (this.#numWaiting >= this.#options.maxQueueSize) {
      this.#dropped++;
      return;
    }
    this.#numWaiting++;
    this.#waiting.push({ seq, events, seconds: Date.now() / 1000 });
    this.#sending ??= new Promise((resolve) => setImmediate(() => resolve(this.#send())));
  }

  stats(): KvEventPublisherStats {
    const { asked, failed } = this.#replays;
    return {
      batches: this.#seq,
      dropped: this.#dropped,
      waiting: this.#numWaiting,
      replays: asked,
      failedReplays: failed,
    };
  }

  /** Publishes the waiting batches, and closes the sockets. Later events are dropped. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#sending;
    this.#router?.close();
    this.#socket.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #send(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batches = this.#waiting;
      this.#waiting = [];
      for (const batch of batches) await this.#publish(batch);
    }
    this.#sending = null;
  }

  async #publish({ seq, events, seconds }: Waiting): Promise<void> {
    const payload = this.#encoder.encode(wireBatch(events, seconds, this.#options));
    this.#buffer.add({ seq, payload });
    try {
      await this.#socket.send([this.#topic, seqBytes(seq), payload]);
    } catch {
      // The batch remains available for replay.
      this.#dropped++;
    }
    this.#numWaiting--;
  }
}

async function bind(name: string, socket: Publisher | Router, endpoint: string): Promise<void> {
  try {
    await socket.bind(endpoint);
  } catch (error) {
    throw badArg(name, endpoint, `an address that can be bound (${describeError(error)})`);
  }
}
