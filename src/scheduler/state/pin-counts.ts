/**
 * The number of the connector's pins on each block. A pinned block is not reused, even when its
 * request frees it.
 */
export class PinCounts {
  readonly #counts = new Map<number, number>();

  /**
   * Adds one pin to each of these blocks, or removes one. The native core has accepted the change
   * before.
   */
  change(blocks: Int32Array, by: 1 | -1): void {
    for (const block of blocks) {
      const count = (this.#counts.get(block) ?? 0) + by;
      if (count === 0) this.#counts.delete(block);
      else this.#counts.set(block, count);
    }
  }

  /** Blocks that have a pin. */
  get size(): number {
    return this.#counts.size;
  }

  has(block: number): boolean {
    return this.#counts.has(block);
  }

  /** The blocks that have a pin. */
  blocks(): Iterable<number> {
    return this.#counts.keys();
  }
}
