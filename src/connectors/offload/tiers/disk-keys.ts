import { BoundedSet } from '../../../base/collections/bounded-set.js';

/**
 * The keys on the disk, as far as the scheduler side knows. For a disk that began empty, all later
 * writes are known, so a miss is answered at once. For a disk that an earlier engine filled, only
 * keys written or found since are known.
 *
 * The set is an estimate, because the disk does not report its evictions. A key that is wrongly
 * expected costs a read; a forgotten key costs a hit.
 */
export class DiskKeys {
  /** The keys by last use, at most as many as the smallest disk has room for. */
  readonly #keys = new BoundedSet<bigint>(Number.POSITIVE_INFINITY);
  /** Ranks whose disk may have unknown keys. */
  readonly #silent: Set<number>;

  constructor(ranks: readonly number[]) {
    this.#silent = new Set(ranks);
  }

  /** Whether every key on the disk is known. */
  get isComplete(): boolean {
    return this.#silent.size === 0;
  }

  /**
   * A rank reports the first state of its disk. @param numBlocks maximum number of blocks that it
   * has room for
   */
  begin(rank: number, isEmpty: boolean, numBlocks: number): void {
    if (isEmpty) this.#silent.delete(rank);
    this.#keys.bound(numBlocks);
  }

  has(key: bigint): boolean {
    return this.#keys.has(key);
  }

  /** A key was written, found or read on every rank. */
  add(key: bigint): void {
    this.#keys.add(key);
  }

  /** A key could not be read. */
  delete(key: bigint): void {
    this.#keys.delete(key);
  }

  /** Invalidates everything on the disk, which is then as empty as a new one. */
  clear(): void {
    this.#keys.clear();
    this.#silent.clear();
  }
}
