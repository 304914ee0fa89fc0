import type { Anomalies } from '../../base/anomalies.js';
import type { Chunk } from '../transport/chunk.js';
import type { RequestKey } from '../transport/messages.js';
import { type ChunkFate, ChunkReceiver } from './chunk-receiver.js';
import { ChunkSender } from './chunk-sender.js';

/** Limits of a `ChunkTransferAdapter`. */
export interface ChunkLimits {
  /** Tokens of a chunk. */
  readonly chunkTokens: number;
  /** Maximum number of chunks of a request that the next stage has received but not computed. */
  readonly maxChunksAhead: number;
  /**
   * Maximum time in milliseconds that a request may wait for its next chunk, or for its own chunks
   * to be taken; 0: no limit.
   */
  readonly stallMs: number;
}

/** The source of a request's chunks, and the handlers of the chunks. */
export interface Source {
  /** The party that sends the chunks, for messages. */
  readonly from: string;
  /** Called for each chunk, in order, when it and all earlier chunks have arrived. */
  readonly give: (chunk: Chunk) => void;
  /** Called when all chunks up to this one are computed, so there is room for more. */
  readonly taken: (number: number) => void;
}

/** The target of a request's chunks. */
export interface Sink {
  /** The party that takes the chunks, for messages. */
  readonly to: string;
  readonly send: (chunk: Chunk) => void;
}

/** A request that has waited too long. */
export interface Stall {
  readonly key: RequestKey;
  /** Text that says what the request waited for. */
  readonly why: string;
}

interface Receiving {
  readonly source: Source;
  readonly receiver: ChunkReceiver;
  /** Number of chunks that were given out and not computed yet. */
  numReady: number;
}

interface Sending {
  readonly sink: Sink;
  readonly sender: ChunkSender;
}

const ANOMALIES = {
  duplicate: 'duplicate-chunk',
  'beyond-window': 'chunk-beyond-window',
  'after-end': 'chunk-after-end',
} as const satisfies Record<Exclude<ChunkFate, 'ready' | 'early'>, string>;

/**
 * Moves the chunks of one stage's requests: in from the previous stage, and out to the next stage.
 * It corresponds to `OmniChunkTransferAdapter` of vllm-omni, but does not borrow requests from the
 * scheduler's queues.
 *
 * A request whose next chunk has not arrived is **parked**. It is in `#parked`, and in no queue of
 * the scheduler. Parking lasts from the end of its last chunk's computation until the next chunk is
 * given out. Requests are found by key, not by id, so a chunk of an old request never reaches a new
 * one with the same id. Unexpected chunks are counted.
 *
 * Invariants: a key in `#parked` is in `#receiving`, has no chunk ready, and is not complete.
 * `#parked` and `#waiting` are in the order of their times, because all waits of a stage have the
 * same limit.
 */
export class ChunkTransferAdapter {
  readonly #limits: ChunkLimits;
  readonly #anomalies: Anomalies;
  readonly #now: () => number;
  readonly #receiving = new Map<RequestKey, Receiving>();
  readonly #sending = new Map<RequestKey, Sending>();
  /** Since when each parked request waits for its next chunk, in milliseconds. */
  readonly #parked = new Map<RequestKey, number>();
  /** Since when each sender waits for its oldest chunk to be taken, in milliseconds. */
  readonly #waiting = new Map<RequestKey, number>();
  #numIn = 0;
  #numOut = 0;

  /** @param now the clock for measuring waits, in milliseconds */
  constructor(limits: ChunkLimits, anomalies: Anomalies, now: () => number) {
    this.#limits = limits;
    this.#anomalies = anomalies;
    this.#now = now;
  }

  /** Number of requests that wait for their next chunk. */
  get numParked(): number {
    return this.#parked.size;
  }

  /** Number of requests with incoming or outgoing chunks. */
  get numOpen(): number {
    return new Set([...this.#receiving.keys(), ...this.#sending.keys()]).size;
  }

  /** Number of chunks that arrived and were given out, and of chunks that were sent. */
  get counts(): { readonly in: number; readonly out: number } {
    return { in: this.#numIn, out: this.#numOut };
  }

  /**
   * Begins to expect chunks of a request.
   * @param hasPrompt true: the request already has tokens to compute; false: it is parked until its
   * first chunk arrives
   */
  receive(key: RequestKey, source: Source, hasPrompt: boolean): void {
    const receiver = new ChunkReceiver();
    this.#receiving.set(key, { source, receiver, numReady: hasPrompt ? 1 : 0 });
    if (!hasPrompt) this.#parked.set(key, this.#now());
  }

  /** Begins to send chunks of a request. */
  send(key: RequestKey, sink: Sink): void {
    const { chunkTokens, maxChunksAhead } = this.#limits;
    const sender = new ChunkSender(chunkTokens, maxChunksAhead, (chunk) => {
      this.#numOut++;
      sink.send(chunk);
    });
    this.#sending.set(key, { sink, sender });
  }

  /** Handles an arriving chunk from any sender. Never throws because of it. */
  receiveChunk(key: RequestKey, chunk: Chunk): void {
    const receiving = this.#receiving.get(key);
    if (receiving === undefined) {
      this.#anomalies.report('chunk-unknown', `chunk ${chunk.number} of ${key}: no request has this key`);
      return;
    }
    const { receiver, source } = receiving;
    const fate = receiver.receive(chunk, (ready) => {
      this.#numIn++;
      receiving.numReady++;
      this.#parked.delete(key);
      source.give(ready);
    });
    if (fate === 'ready' || fate === 'early') return;
    const detail = `chunk ${chunk.number} of ${key} from ${source.from}, where chunk ${receiver.next} is next`;
    this.#anomalies.report(ANOMALIES[fate], detail);
  }

  /** The oldest chunk that was given out is computed, or had nothing to compute. */
  computed(key: RequestKey): void {
    const receiving = this.#receiving.get(key);
    if (receiving === undefined || receiving.numReady === 0) return;
    const { receiver, source } = receiving;
    receiving.numReady--;
    const number = receiver.next - 1 - receiving.numReady;
    // The prompt is no chunk.
    if (number > 0) source.taken(number);
    if (receiving.numReady === 0 && !receiver.isComplete) this.#parked.set(key, this.#now());
  }

  /**
   * Sends tokens when they fill a chunk and the receiver has room. @param flush see
   * `ChunkSender.add`
   */
  save(key: RequestKey, tokens: Int32Array, extras: readonly unknown[] | null, flush: boolean): void {
    const sending = this.#sending.get(key);
    if (sending === undefined) return;
    sending.sender.add(tokens, extras, flush, this.#now());
    this.#watch(key, sending);
  }

  /** The request has no more tokens. */
  saveEnd(key: RequestKey): void {
    const sending = this.#sending.get(key);
    if (sending === undefined) return;
    sending.sender.end(this.#now());
    this.#watch(key, sending);
  }

  /** The receiver has computed chunks up to this one. */
  taken(key: RequestKey, number: number): void {
    const sending = this.#sending.get(key);
    // The request has ended here. This is a race with its receiver, not an anomaly.
    if (sending === undefined) return;
    if (sending.sender.taken(number, this.#now())) this.#watch(key, sending);
    else
      this.#anomalies.report('duplicate-chunk', `chunk ${number} of ${key} was taken twice, or never sent`);
  }

  /** Whether all chunks of a request were sent; true for a request that sends none. */
  isSent(key: RequestKey): boolean {
    return this.#sending.get(key)?.sender.isOver ?? true;
  }

  /** Forgets a request and all its chunks. Idempotent. */
  cancel(key: RequestKey): void {
    this.cleanupReceiver(key);
    this.#sending.delete(key);
    this.#waiting.delete(key);
  }

  /** Forgets the incoming side of a request. Later chunks of it count as unknown. Idempotent. */
  cleanupReceiver(key: RequestKey): void {
    this.#receiving.delete(key);
    this.#parked.delete(key);
  }

  /**
   * Returns the requests whose wait exceeds the limit. Each is returned again until it is
   * cancelled.
   */
  stalled(): Stall[] {
    const { stallMs } = this.#limits;
    if (stallMs === 0) return [];
    const now = this.#now();
    const stalls: Stall[] = [];
    for (const [key, since] of this.#parked) {
      if (since + stallMs > now) break;
      stalls.push({ key, why: this.#awaited(key, now - since) });
    }
    for (const [key, since] of this.#waiting) {
      if (since + stallMs > now) break;
      stalls.push({ key, why: this.#unsent(key, now - since) });
    }
    return stalls;
  }

  /** When the next wait exceeds the limit, in milliseconds of the clock; Infinity: never. */
  get nextDeadline(): number {
    const { stallMs } = this.#limits;
    if (stallMs === 0) return Number.POSITIVE_INFINITY;
    const [parked = Number.POSITIVE_INFINITY] = this.#parked.values();
    const [waiting = Number.POSITIVE_INFINITY] = this.#waiting.values();
    return Math.min(parked, waiting) + stallMs;
  }

  /** Describes what a request waits for here; null if it waits for nothing. */
  explain(key: RequestKey): string | null {
    const now = this.#now();
    const parked = this.#parked.get(key);
    if (parked !== undefined) return this.#awaited(key, now - parked);
    const sending = this.#sending.get(key);
    if (sending === undefined || sending.sender.numWaiting === 0) return null;
    return this.#unsent(key, now - sending.sender.waitsSince);
  }

  #watch(key: RequestKey, { sender }: Sending): void {
    const { waitsSince } = sender;
    if (this.#waiting.get(key) === waitsSince) return;
    this.#waiting.delete(key);
    if (waitsSince >= 0) this.#waiting.set(key, waitsSince);
    else if (sender.isOver) this.#sending.delete(key);
  }

  #awaited(key: RequestKey, ms: number): string {
    const { source, receiver } = this.#receiving.get(key) as Receiving;
    return `waits for chunk ${receiver.next} of ${source.from}, ${Math.round(ms)} ms`;
  }

  #unsent(key: RequestKey, ms: number): string {
    const { sink, sender } = this.#sending.get(key) as Sending;
    return `waits for ${sink.to} to take chunk ${sender.numWaiting}, ${Math.round(ms)} ms`;
  }
}
