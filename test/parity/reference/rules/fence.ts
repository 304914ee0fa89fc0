import type { ReferencePool } from '../kv/pool.js';

/** Rows that were given up while a batch that may write them was in flight. Their blocks are in no queue, and keep their references. */
export class Fence {
  /** Batches with tokens: how many were scheduled, and how many of them were processed. */
  #scheduled = 0;
  #processed = 0;
  #rows: { blocks: readonly number[]; after: number }[] = [];

  constructor(private readonly pool: ReferencePool) {}

  /** The blocks of all rows that are held back. */
  get blocks(): readonly number[] {
    return this.#rows.flatMap(({ blocks }) => blocks);
  }

  /** A batch was scheduled. @returns its number, from 1 */
  schedule(): number {
    return ++this.#scheduled;
  }

  /** Whether a batch is still to be processed. */
  isInFlight(batch: number): boolean {
    return batch > this.#processed;
  }

  hold(blocks: readonly number[]): void {
    this.#rows.push({ blocks, after: this.#scheduled });
  }

  /** The oldest batch is about to be processed. */
  process(): void {
    this.#processed++;
    this.#free(({ after }) => after <= this.#processed);
  }

  /** Everything in flight is void. */
  clear(): void {
    this.#free(() => true);
  }

  #free(isDue: (row: { after: number }) => boolean): void {
    for (const { blocks } of this.#rows.filter(isDue)) this.pool.release(blocks);
    this.#rows = this.#rows.filter((row) => !isDue(row));
  }
}
