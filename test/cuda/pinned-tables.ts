import { TABLE_NAMES } from '../../src/core/device-tables.js';
import type { StepTables } from '../../src/core/tables.js';
import type { TablesOnDevice } from '../../src/executors/reference/device-runner.js';
import { BlockArena } from '../../src/transfer.js';

/**
 * Tables of the host where a GPU reads them: in pinned memory, which a test can damage as it likes. Each call takes the next
 * of so many places.
 */
export class PinnedTables {
  readonly #places: BlockArena;
  #next = 0;

  constructor(bytes: number, count: number) {
    this.#places = BlockArena.allocate({
      numBlocks: count,
      bytesPerBlock: (bytes + 7) & ~7,
      place: 'pinned',
    });
  }

  copy(tables: StepTables): TablesOnDevice {
    const { maxTokens, maxEntries, maxBlocksPerRow, buffer, groups } = tables;
    const place = this.#next++ % this.#places.numBlocks;
    this.#places.block(place).set(new Uint8Array(buffer));
    const base = this.#places.pointer + BigInt(place * this.#places.bytesPerBlock);
    const onDevice = ({ byteOffset }: ArrayBufferView) => ({
      pointer: base + BigInt(byteOffset),
      device: 'cuda:0',
    });
    const arrays = TABLE_NAMES.map((name) => [name, onDevice(tables[name])]);
    const ofGroups = groups.map(({ slotMapping, blockTable, ...shape }) => ({
      ...shape,
      slotMapping: onDevice(slotMapping),
      blockTable: onDevice(blockTable),
    }));
    const readTokens: StepTables['readTokens'] = (entry, from, out) => tables.readTokens(entry, from, out);
    const shape = { maxTokens, maxEntries, maxBlocksPerRow };
    return { ...shape, readTokens, groups: ofGroups, ...Object.fromEntries(arrays) };
  }

  dispose(): void {
    this.#places.dispose();
  }
}
