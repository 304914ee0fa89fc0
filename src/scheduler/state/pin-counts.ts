/**
 * How many pins of the connector each block has. A pinned block is not reused, even when its request gives it back.
 */
export class PinCounts {
  readonly #counts = new Map<number, number>();

  /** Notes one pin more or less for each of these blocks. The native core has accepted the change before. */
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
