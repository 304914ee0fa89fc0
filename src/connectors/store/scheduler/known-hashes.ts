/**
 * Hashes of blocks that the store has, as far as this engine knows: it stored them, or found them. Others may have removed
 * them meanwhile. Bounded: the hash that was noted first is forgotten first.
 */
export class KnownHashes {
  readonly #most: number;
  readonly #hashes = new Set<bigint>();

  /** @param most hashes that are remembered */
  constructor(most: number) {
    this.#most = most;
  }

  get size(): number {
    return this.#hashes.size;
  }

  has(hash: bigint): boolean {
    return this.#hashes.has(hash);
  }

  add(hash: bigint): void {
    this.#hashes.delete(hash);
    this.#hashes.add(hash);
    if (this.#hashes.size <= this.#most) return;
    for (const oldest of this.#hashes) {
      this.#hashes.delete(oldest);
      return;
    }
  }

  delete(hash: bigint): void {
    this.#hashes.delete(hash);
  }

  clear(): void {
    this.#hashes.clear();
  }
}
