import type { EmbeddedFile } from './embedded-file.js';

/** Most keys whose use is remembered until the next transaction; the use of more is forgotten. */
const MAX_TOUCHED = 65_536;
/** A database keeps no empty value. */
const NOTHING = Buffer.from([0]);

/**
 * In which order the values of an embedded store were used. Uses by reading are kept in memory, and noted in the file
 * with the next transaction: noting each would make every read a write.
 *
 * A use is written as two numbers of eight bytes: milliseconds since 1970, and the size of the value in bytes. The
 * milliseconds are of one machine, since LMDB works on no other, and a clock that is set back only changes who is
 * removed first.
 */
export class UseOrder {
  readonly #file: EmbeddedFile;
  readonly #touched = new Map<string, Uint8Array>();

  constructor(file: EmbeddedFile) {
    this.#file = file;
  }

  /** Keys whose use the file does not know yet. */
  get numTouched(): number {
    return this.#touched.size;
  }

  /** Notes that a value was read. */
  touch(key: Buffer): void {
    if (this.#touched.size < MAX_TOUCHED) this.#touched.set(key.toString('latin1'), key);
  }

  /** The keys that were touched since the last call. */
  takeTouched(): Uint8Array[] {
    const keys = [...this.#touched.values()];
    this.#touched.clear();
    return keys;
  }

  /** In a transaction: notes that values were used. Keys that are gone meanwhile are skipped. */
  note(keys: readonly Uint8Array[]): void {
    for (const key of keys) {
      const size = this.remove(key);
      if (size > 0) this.add(key, size);
    }
  }

  /** In a transaction: adds a value, as the one used last. */
  add(key: Uint8Array, size: number): void {
    const use = Buffer.alloc(16);
    use.writeDoubleBE(Date.now(), 0);
    use.writeDoubleBE(size, 8);
    this.#file.uses.putSync(key, use);
    this.#file.order.putSync(orderKey(use, key), NOTHING);
  }

  /** In a transaction: removes a value. @returns its size; 0 if there is none */
  remove(key: Uint8Array): number {
    const { uses, order } = this.#file;
    const use = uses.getBinary(key);
    if (use === undefined) return 0;
    uses.removeSync(key);
    order.removeSync(orderKey(use, key));
    return use.readDoubleBE(8);
  }

  /** In a transaction: the key of the value that was unused for longest; null if there is none. */
  oldest(): Uint8Array | null {
    for (const entry of this.#file.order.getKeys({ limit: 1 })) return Uint8Array.from(entry.subarray(8));
    return null;
  }
}

/** Positive doubles of big endian sort like their numbers. */
function orderKey(use: Buffer, key: Uint8Array): Uint8Array {
  return Buffer.concat([use.subarray(0, 8), key]);
}
