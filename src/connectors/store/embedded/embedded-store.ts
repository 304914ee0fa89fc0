import { type BlockStore, Outcome } from '../stores/block-store.js';
import type { EmbeddedSettings } from '../stores/store-options.js';
import { type EmbeddedFile, openFile } from './embedded-file.js';
import { checkFile } from './file-check.js';
import { UseOrder } from './use-order.js';

/** Most bytes that one transaction stores; a file lets one writer in at a time, of all processes. */
const TRANSACTION_BYTES = 2 ** 23;
/** Bytes of a page: a value takes whole pages. */
const PAGE_BYTES = 4096;
const TOTAL = Buffer.from('bytes');

/**
 * A store in a file of LMDB, for the engines of one machine. It needs no server, and survives the end of its engines.
 * Values that were not used for longest make room for new ones. Several processes may use one file.
 *
 * A transaction stores values and notes their ages and sizes together, so a process that is killed leaves no half of it.
 * Invariant, in every committed state of the file: `values`, `uses` and `order` have the same keys, and the fact `bytes`
 * is the sum of the sizes of the values, in whole pages.
 */
export class EmbeddedStore implements BlockStore {
  readonly #file: EmbeddedFile;
  readonly #maxBytes: number;
  readonly #uses: UseOrder;

  private constructor(file: EmbeddedFile, maxBytes: number) {
    this.#file = file;
    this.#maxBytes = maxBytes;
    this.#uses = new UseOrder(file);
  }

  /**
   * Opens the file, or makes it. Not for the process of an engine: LMDB can end the process that it fails in. See `ProcessStore`.
   * @throws if the file cannot be opened, or is damaged (`isDamage`)
   */
  static async open({ path, maxBytes }: EmbeddedSettings): Promise<EmbeddedStore> {
    // LMDB makes the map larger where that is needed: the bound is kept by this class.
    const file = await openFile(path, 2 * maxBytes);
    try {
      checkFile(file);
    } catch (error) {
      await file.root.close();
      throw error;
    }
    return new EmbeddedStore(file, maxBytes);
  }

  has(keys: readonly string[]): Promise<Uint8Array> {
    const { values } = this.#file;
    const there = keys.map((key) => (values.doesExist(Buffer.from(key)) ? Outcome.done : Outcome.missing));
    return Promise.resolve(Uint8Array.from(there));
  }

  get(keys: readonly string[], visit: (index: number, value: Uint8Array | null) => void): Promise<void> {
    const { values } = this.#file;
    for (const [i, key] of keys.entries()) {
      const bytes = Buffer.from(key);
      const found = values.getBinaryFast(bytes);
      if (found !== undefined) this.#uses.touch(bytes);
      // The buffer is that of all reads, so its own length says nothing.
      const size = (values as unknown as { lastSize: number }).lastSize;
      visit(i, found === undefined ? null : found.subarray(0, size));
    }
    return Promise.resolve();
  }

  async put(keys: readonly string[], values: readonly Uint8Array[]): Promise<Uint8Array> {
    const outcomes = new Uint8Array(keys.length);
    for (let from = 0; from < keys.length; ) {
      let end = from;
      for (let bytes = 0; end < keys.length; end++) {
        bytes += sizeOf(values[end]);
        if (end > from && bytes > TRANSACTION_BYTES) break;
      }
      outcomes.fill(this.#putSome(keys.slice(from, end), values.slice(from, end)), from, end);
      from = end;
      // Between two transactions others may read and write.
      await new Promise(setImmediate);
    }
    return outcomes;
  }

  remove(keys: readonly string[]): Promise<void> {
    this.#change(0, (total) => keys.reduce((sum, key) => sum - this.#drop(Buffer.from(key)), total));
    return Promise.resolve();
  }

  /** Whether the invariant of the class holds; looks at every key. For tests. */
  isConsistent(): boolean {
    const { values, uses, order, facts } = this.#file;
    const keys = [...values.getKeys({})].map((key) => Buffer.from(key).toString('latin1'));
    const used = [...uses.getKeys({})].map((key) => Buffer.from(key).toString('latin1'));
    const ordered = [...order.getKeys({})].map((key) => Buffer.from(key.subarray(8)).toString('latin1'));
    const sizes = [...values.getRange({})].map(({ value }) => sizeOf(value));
    const total = sizes.reduce((sum, size) => sum + size, 0);
    const noted = facts.getBinary(TOTAL)?.readDoubleLE(0) ?? 0;
    return keys.join() === used.join() && keys.join() === ordered.sort().join() && total === noted;
  }

  async close(): Promise<void> {
    if (this.#uses.numTouched > 0) this.#change(0, (total) => total);
    await this.#file.root.close();
  }

  #putSome(keys: readonly string[], values: readonly Uint8Array[]): Outcome {
    const needed = values.reduce((sum, value) => sum + sizeOf(value), 0);
    if (needed > this.#maxBytes) return Outcome.full;
    try {
      this.#change(needed, (total) => {
        let sum = total;
        for (const [i, key] of keys.entries()) {
          const bytes = Buffer.from(key);
          sum += sizeOf(values[i]) - this.#drop(bytes);
          this.#file.values.putSync(bytes, values[i]);
          this.#uses.add(bytes, sizeOf(values[i]));
        }
        return sum;
      });
      return Outcome.done;
    } catch (error) {
      if (!isFull(error)) throw error;
      return Outcome.full;
    }
  }

  /**
   * Makes a transaction: notes what was used, makes room, and acts.
   * @param needed bytes that there must be room for
   * @param act is given the bytes of all values, and returns them as they are afterwards
   */
  #change(needed: number, act: (total: number) => number): void {
    const { root, facts } = this.#file;
    const touched = this.#uses.takeTouched();
    root.transactionSync(() => {
      this.#uses.note(touched);
      const noted = facts.getBinary(TOTAL);
      const total = this.#makeRoom(noted === undefined ? 0 : noted.readDoubleLE(0), needed);
      const after = Buffer.alloc(8);
      after.writeDoubleLE(act(total), 0);
      facts.putSync(TOTAL, after);
    });
  }

  #makeRoom(total: number, needed: number): number {
    let left = total;
    while (left + needed > this.#maxBytes) {
      const oldest = this.#uses.oldest();
      if (oldest === null) return 0;
      left -= this.#drop(oldest);
    }
    return left;
  }

  /** Removes a value. @returns its size; 0 if there is none */
  #drop(key: Uint8Array): number {
    const { values } = this.#file;
    const size = this.#uses.remove(key);
    if (size > 0) values.removeSync(key);
    return size;
  }
}

/** Bytes of the pages that a value takes. */
function sizeOf(value: Uint8Array): number {
  return PAGE_BYTES * Math.ceil((value.length + 16) / PAGE_BYTES);
}

/**
 * Whether an error of a transaction says that the disk or the file is full. LMDB calls a page that was written in part only
 * an I/O error, which is how a disk becomes full.
 */
function isFull(error: unknown): boolean {
  return /no space|MAP_FULL|too large|input\/output/i.test(String((error as Error).message));
}
