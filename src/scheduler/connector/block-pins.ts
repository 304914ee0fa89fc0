import { takeInt32Array } from '../../base/arrays.js';
import type { BlockPins } from './connector.js';
import type { ViewOwner } from './kv-view.js';

/** How many pins of the connector each block has: blocks with a pin come back to nobody, whoever gives them back. */
export class PinCounts {
  readonly #counts = new Map<number, number>();

  /** One pin more or less for each of these blocks, which the native side has taken. */
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
}

/** The pins of blocks, for a connector that protects them so. */
export function makePins(owner: ViewOwner): BlockPins {
  const { state, gate, log } = owner;
  const { native } = state.core;
  const change = (blocks: unknown, by: 1 | -1): void => {
    gate.checkUsable();
    const ids = takeInt32Array('blocks', blocks);
    if (by > 0) native.pin(ids);
    else native.unpin(ids);
    state.pins.change(ids, by);
    state.blocksMoved = true;
    log?.pins(by > 0, ids);
    // Between calls nobody else hands the command over.
    if (!gate.isBusy) gate.change(() => owner.flushLog());
  };
  return { pin: (ids) => change(ids, 1), unpin: (ids) => change(ids, -1) };
}
