import type { ParsedStops, StopConditions } from './stop-conditions.js';

/**
 * The input of `Scheduler.addChunk`. A stop condition that a chunk leaves out is that of `add`, and
 * not that of the previous chunk. Priority, salt, adapter, grammar, time limit and transfer params
 * are always those of
 * `add`.
 */
export interface ChunkInput extends Partial<StopConditions> {
  /**
   * Token ids that follow the session's text so far, at least one; copied. Any array-like, as in
   * `RequestInput.prompt`.
   */
  prompt: ArrayLike<number>;
  /**
   * With policy `priority`: breaks ties of priority, the lower value first. Any unit. Default: the scheduler's clock.
   */
  arrivalTime?: number;
  /**
   * For the executor, for the answer to this chunk; see `RequestInput.params`. Default: the
   * `params` of `add`.
   */
  params?: unknown;
}

/** A checked chunk with complete stop conditions. */
export interface Chunk {
  readonly prompt: Int32Array;
  readonly stops: ParsedStops;
  readonly arrivalTime: number;
  readonly params: unknown;
  /** When the chunk was given to the session, in milliseconds of the scheduler's clock. */
  readonly addedAt: number;
}

/**
 * The streaming input of one request (vLLM's resumable requests). It has the chunks that came while
 * the request was busy, in order, and whether the end of the input was announced. A session holds
 * no reference to its request, so a late chunk cannot bring the request back.
 */
export class Session {
  readonly #queue: Chunk[] = [];
  /** Tokens of the chunks in the queue. */
  numQueuedTokens = 0;
  /** True: no further chunk will come. The request ends when the queue is empty and the last answer ends. */
  ended = false;

  /**
   * @param stops the stop conditions of `add`, which chunks fall back on
   * @param params the executor's parameters of `add`, which chunks fall back on
   * @param numChunks chunks whose answer was begun: the prompt of `add` is the first chunk, unless it is empty
   */
  constructor(
    readonly stops: ParsedStops,
    readonly params: unknown = undefined,
    public numChunks: number = 1,
  ) {}

  /** Chunks that wait for their answer, the next one first. */
  get queue(): readonly Chunk[] {
    return this.#queue;
  }

  /** @internal */
  enqueue(chunk: Chunk): void {
    this.#queue.push(chunk);
    this.numQueuedTokens += chunk.prompt.length;
  }

  /** @internal Takes the next chunk out of the queue; undefined if the queue is empty. */
  dequeue(): Chunk | undefined {
    const next = this.#queue.shift();
    if (next !== undefined) this.numQueuedTokens -= next.prompt.length;
    return next;
  }

  /** @internal Drops the chunks in the queue and ends the session. */
  close(): void {
    this.#queue.length = 0;
    this.numQueuedTokens = 0;
    this.ended = true;
  }
}

/**
 * The outcome of adding a chunk. `started`: its computation can begin. `queued`: it waits for
 * earlier answers. `skipped`: no session accepts it.
 */
export type ChunkOutcome = 'started' | 'queued' | 'skipped';

/**
 * The outcome of an end marker. `ended`: it ended the request. `queued`: the request ends when the
 * last chunk is answered.
 * `skipped`: no session accepts it.
 */
export type EndOutcome = 'ended' | 'queued' | 'skipped';
