import type { Chunk } from '../transport/chunk.js';
import type { RequestKey } from '../transport/messages.js';

/** Maximum number of chunks that are kept. */
const MOST_KEPT = 1024;
/** Milliseconds for which a chunk is kept. */
const PATIENCE_MS = 10_000;

interface Kept {
  readonly since: number;
  readonly chunks: Chunk[];
}

/**
 * Chunks that arrive before their request's submission. The submission is sent first, but by
 * another party, so it may arrive later. At most 1,024 chunks are kept, for ten seconds. Dropped
 * chunks are reported as unknown.
 *
 * Invariant: `#kept` is in the order of its times; `#count` is the number of chunks in it.
 */
export class EarlyChunks {
  readonly #unknown: (key: RequestKey, chunk: Chunk) => void;
  readonly #kept = new Map<RequestKey, Kept>();
  #count = 0;

  /** @param unknown called with each chunk whose request has not arrived */
  constructor(unknown: (key: RequestKey, chunk: Chunk) => void) {
    this.#unknown = unknown;
  }

  /** Number of kept chunks. */
  get count(): number {
    return this.#count;
  }

  /** When the first kept chunk is dropped, in milliseconds; Infinity: none is kept. */
  get nextDeadline(): number {
    const [first] = this.#kept.values();
    return first === undefined ? Number.POSITIVE_INFINITY : first.since + PATIENCE_MS;
  }

  keep(key: RequestKey, chunk: Chunk, now: number): void {
    const kept = this.#kept.get(key);
    if (kept === undefined) this.#kept.set(key, { since: now, chunks: [chunk] });
    else kept.chunks.push(chunk);
    this.#count++;
    if (this.#count > MOST_KEPT) this.#dropOldest();
  }

  /** Drains the chunks of a request that has arrived or ended. */
  drain(key: RequestKey): readonly Chunk[] {
    const chunks = this.#kept.get(key)?.chunks ?? [];
    this.#kept.delete(key);
    this.#count -= chunks.length;
    return chunks;
  }

  /** Drops chunks that were kept for too long. */
  expire(now: number): void {
    while (this.nextDeadline <= now) this.#dropOldest();
  }

  #dropOldest(): void {
    const [key] = this.#kept.keys();
    for (const chunk of this.drain(key)) this.#unknown(key, chunk);
  }
}
