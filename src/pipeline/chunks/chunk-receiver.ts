import { type Chunk, MOST_AHEAD } from '../transport/chunk.js';

/**
 * The result of an arriving chunk. `ready`: it is the next one. `early`: an earlier chunk is
 * missing. The other results are anomalies.
 */
export type ChunkFate = 'ready' | 'early' | 'duplicate' | 'beyond-window' | 'after-end';

/**
 * The incoming chunks of one request. It gives them out in order, each once, whatever the transport
 * does.
 *
 * Invariants: chunks before `#next` were given out; `#early` has only chunks from `#next` on, at
 * most `MOST_AHEAD`.
 */
export class ChunkReceiver {
  readonly #early = new Map<number, Chunk>();
  #next = 1;
  #isComplete = false;

  /** Number of the next expected chunk. */
  get next(): number {
    return this.#next;
  }

  /** Whether the last chunk was given out. */
  get isComplete(): boolean {
    return this.#isComplete;
  }

  /**
   * Handles an arriving chunk.
   * @param give called for this chunk and for waiting later chunks, in order, if this chunk is the
   * next one
   */
  receive(chunk: Chunk, give: (chunk: Chunk) => void): ChunkFate {
    const { number } = chunk;
    if (number < this.#next || this.#early.has(number)) return 'duplicate';
    if (this.#isComplete) return 'after-end';
    // The limit is one more than the window, because a last chunk without tokens needs no place in
    // it.
    if (number > this.#next + MOST_AHEAD) return 'beyond-window';
    this.#early.set(number, chunk);
    if (number > this.#next) return 'early';
    for (let next = this.#early.get(this.#next); next !== undefined; next = this.#early.get(this.#next)) {
      this.#early.delete(this.#next++);
      this.#isComplete = next.isLast;
      give(next);
    }
    return 'ready';
  }
}
