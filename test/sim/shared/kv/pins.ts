import type { BlockPins } from '../../../../src/scheduler/connector/connector.js';

/** The pins of a connector, counted by block. */
export class Pins {
  readonly counts = new Map<number, number>();
  #pinner: BlockPins | null = null;
  #over: number[] = [];

  bind(pinner: BlockPins): void {
    this.#pinner = pinner;
  }

  pin(blocks: readonly number[]): void {
    this.#pinner?.pin(Int32Array.from(blocks));
    for (const block of blocks) this.#count(block, 1);
  }

  /** The use for which these blocks were pinned is over: `sweep` unpins them. */
  release(blocks: Iterable<number>): void {
    this.#over.push(...blocks);
  }

  get owesSweep(): boolean {
    return this.#over.length > 0;
  }

  /** To be called in a method of the connector, or between calls of the scheduler. */
  sweep(): void {
    if (this.#over.length === 0) return;
    this.#pinner?.unpin(Int32Array.from(this.#over));
    for (const block of this.#over) this.#count(block, -1);
    this.#over = [];
  }

  #count(block: number, by: number): void {
    const count = (this.counts.get(block) ?? 0) + by;
    if (count === 0) this.counts.delete(block);
    else this.counts.set(block, count);
  }
}
