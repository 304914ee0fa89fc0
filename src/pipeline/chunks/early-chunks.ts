import type { Chunk } from '../transport/chunk.js';
import type { RequestKey } from '../transport/messages.js';

/** Most chunks that are kept. */
const MOST_KEPT = 1024;
/** Milliseconds for which they are kept. */
const PATIENCE_MS = 10_000;

interface Kept {
  readonly since: number;
  readonly chunks: Chunk[];
}

/**
 * Chunks of requests whose submission has not come: it is sent before them, but by another party, so it may come after them. They are
 * kept for ten seconds, and no more than 1,024 of them; what goes is told as unknown.
 *
 * Invariant: `#kept` is in the order of its times; `#count` is the number of chunks in it.
 */
export class EarlyChunks {
  readonly #unknown: (key: RequestKey, chunk: Chunk) => void;
  readonly #kept = new Map<RequestKey, Kept>();
  #count = 0;

  /** @param unknown is told of each chunk whose request has not come */
  constructor(unknown: (key: RequestKey, chunk: Chunk) => void) {
    this.#unknown = unknown;
  }

  /** Chunks that are kept. */
  get count(): number {
    return this.#count;
  }

  /** When the first of them goes, in milliseconds; Infinity: none is kept. */
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

  /** Gives out the chunks of a request that has come now, or has ended. */
  take(key: RequestKey): readonly Chunk[] {
    const chunks = this.#kept.get(key)?.chunks ?? [];
    this.#kept.delete(key);
    this.#count -= chunks.length;
    return chunks;
  }

  /** Lets go what was kept for too long. */
  expire(now: number): void {
    while (this.nextDeadline <= now) this.#dropOldest();
  }

  #dropOldest(): void {
    const [key] = this.#kept.keys();
    for (const chunk of this.take(key)) this.#unknown(key, chunk);
  }
}
