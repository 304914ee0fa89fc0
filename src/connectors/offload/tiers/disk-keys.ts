import { BoundedSet } from '../../../base/collections/bounded-set.js';

/**
 * The keys that the disk has, as far as the scheduler side knows. A disk that began empty has what was written since, so a miss is
 * answered at once. Of a disk that an earlier engine has filled only what was written or found since is known.
 *
 * It is a guess: what the disk drops to make room is not told. A key that is thought to be there and is not costs a read; one that
 * was forgotten costs a hit.
 */
export class DiskKeys {
  /** As many as the smallest disk has room for, by their last use. */
  readonly #keys = new BoundedSet<bigint>(Number.POSITIVE_INFINITY);
  /** Ranks whose disk may have more than is known. */
  readonly #silent: Set<number>;

  constructor(ranks: readonly number[]) {
    this.#silent = new Set(ranks);
  }

  /** Whether a key that is not known is not there. */
  get isComplete(): boolean {
    return this.#silent.size === 0;
  }

  /** A rank says how its disk has begun. @param numBlocks most blocks that it has room for */
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

  /** Everything on the disk is worthless from now on: it is as empty as a new one. */
  clear(): void {
    this.#keys.clear();
    this.#silent.clear();
  }
}
