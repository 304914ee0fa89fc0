import type { StopConditions, TakenStops } from './stop-conditions.js';

/**
 * What a caller gives to `Scheduler.addChunk`. A stop condition that is left out is that of `add`, not that of the chunk
 * before; priority, salt, adapter and grammar are those of `add` always.
 */
export interface ChunkInput extends Partial<StopConditions> {
  /** Token ids that follow what was said so far, at least one; copied. Any array-like, as in `RequestInput`. */
  prompt: ArrayLike<number>;
  /** With policy `priority`: breaks ties, lower first. Any unit; default: the scheduler's clock. */
  arrivalTime?: number;
  /** For the executor, for the answer to this chunk; see `RequestInput.params`. Default: that of `add`. */
  params?: unknown;
}

/** A checked chunk, its stop conditions complete. */
export interface Chunk {
  readonly prompt: Int32Array;
  readonly stops: TakenStops;
  readonly arrivalTime: number;
  readonly params: unknown;
  /** When it was given to the session, on the scheduler's clock. */
  readonly addedAt: number;
}

/**
 * The streaming input of one request (vLLM's resumable requests): chunks that came while it was busy, in order, and
 * whether the end was announced. It never names a request, so nothing that comes late can bring one back.
 */
export class Session {
  readonly #queue: Chunk[] = [];
  /** Tokens of the chunks in the queue. */
  numQueuedTokens = 0;
  /** No chunk will come any more: when the queue is empty and the last answer ends, the request does. */
  ended = false;
  /** Chunks whose answer was begun; the prompt of `add` is the first. */
  numChunks = 1;

  /** @param stops the stop conditions of `add`, and @param params what it gave for the executor: chunks fall back on both */
  constructor(
    readonly stops: TakenStops,
    readonly params: unknown = undefined,
  ) {}

  /** Chunks to be answered, next first. */
  get queue(): readonly Chunk[] {
    return this.#queue;
  }

  /** @internal */
  enqueue(chunk: Chunk): void {
    this.#queue.push(chunk);
    this.numQueuedTokens += chunk.prompt.length;
  }

  /** @internal The chunk to be answered next; undefined if there is none yet. */
  dequeue(): Chunk | undefined {
    const next = this.#queue.shift();
    if (next !== undefined) this.numQueuedTokens -= next.prompt.length;
    return next;
  }

  /** @internal Forgets what was still to come. */
  close(): void {
    this.#queue.length = 0;
    this.numQueuedTokens = 0;
    this.ended = true;
  }
}

/** What became of a chunk: its computation can begin, it waits for the answers before it, or nobody wants it. */
export type ChunkOutcome = 'started' | 'queued' | 'skipped';

/** What an end marker did: it ended the request, or will when the last chunk is answered, or it was not wanted. */
export type EndOutcome = 'ended' | 'queued' | 'skipped';
