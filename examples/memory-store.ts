/**
 * A block store of one's own, for the engines of one process: values in memory, and the longest unused goes first.
 *
 *     const kept = new MemoryStore(2 ** 30);
 *     const store = { open: () => Promise.resolve(kept) };
 *     new StoreConnector({ store, format });
 *     new StoreWorker({ store, memory });
 */
import { type BlockStore, Outcome, type Visit } from 'blockstep/connectors/store';

export class MemoryStore implements BlockStore {
  /** The longest unused value first. */
  readonly #values = new Map<string, Uint8Array>();
  #numBytes = 0;

  constructor(readonly maxBytes: number) {}

  has(keys: readonly string[]): Promise<Uint8Array> {
    return Promise.resolve(
      Uint8Array.from(keys, (key) => (this.#values.has(key) ? Outcome.done : Outcome.missing)),
    );
  }

  get(keys: readonly string[], visit: Visit): Promise<void> {
    for (const [i, key] of keys.entries()) {
      const value = this.#take(key);
      if (value !== null) this.#keep(key, value);
      visit(i, value);
    }
    return Promise.resolve();
  }

  put(keys: readonly string[], values: readonly Uint8Array[]): Promise<Uint8Array> {
    for (const [i, key] of keys.entries()) {
      this.#take(key);
      this.#keep(key, values[i]);
    }
    for (const key of this.#values.keys()) {
      if (this.#numBytes <= this.maxBytes) break;
      this.#take(key);
    }
    return Promise.resolve(new Uint8Array(keys.length).fill(Outcome.done));
  }

  remove(keys: readonly string[]): Promise<void> {
    for (const key of keys) this.#take(key);
    return Promise.resolve();
  }

  /** The values stay: others have the store, too. */
  close(): Promise<void> {
    return Promise.resolve();
  }

  #keep(key: string, value: Uint8Array): void {
    this.#values.set(key, value);
    this.#numBytes += value.length;
  }

  #take(key: string): Uint8Array | null {
    const value = this.#values.get(key) ?? null;
    if (this.#values.delete(key)) this.#numBytes -= value?.length ?? 0;
    return value;
  }
}
