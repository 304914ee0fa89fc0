/**
 * A block store of one's own, for the engines of one process: values in memory, and the longest unused goes first.
 *
 *     const kept = new MemoryStore(2 ** 30);
 *     const store = { open: () => Promise.resolve(kept) };
 *     new StoreConnector({ store, format });
 *     new StoreWorker({ store, memory });
 *
 *     npx tsx examples/memory-store.ts
 *
 * has one engine store a prompt and another one load it, and prints how much.
 */
import { pathToFileURL } from 'node:url';
import { Engine, ReferenceExecutor } from 'blockstep';
import {
  type BlockStore,
  Outcome,
  StoreConnector,
  StoreWorker,
  type Visit,
} from 'blockstep/connectors/store';

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
      const value = this.#remove(key);
      if (value !== null) this.#keep(key, value);
      visit(i, value);
    }
    return Promise.resolve();
  }

  put(keys: readonly string[], values: readonly Uint8Array[]): Promise<Uint8Array> {
    for (const [i, key] of keys.entries()) {
      this.#remove(key);
      this.#keep(key, values[i]);
    }
    for (const key of this.#values.keys()) {
      if (this.#numBytes <= this.maxBytes) break;
      this.#remove(key);
    }
    return Promise.resolve(new Uint8Array(keys.length).fill(Outcome.done));
  }

  remove(keys: readonly string[]): Promise<void> {
    for (const key of keys) this.#remove(key);
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

  #remove(key: string): Uint8Array | null {
    const value = this.#values.get(key) ?? null;
    if (this.#values.delete(key)) this.#numBytes -= value?.length ?? 0;
    return value;
  }
}

export async function main(print: (line: string) => void = console.log): Promise<void> {
  const kept = new MemoryStore(2 ** 30);
  const store = { open: () => Promise.resolve(kept) };
  const options = { numBlocks: 64, blockSize: 16, maxNumSeqs: 8, maxModelLen: 512 };
  for (const name of ['first', 'second']) {
    const memory = new ReferenceExecutor(options);
    const { bytesPerBlock } = memory.kv;
    const format = { model: 'my-model@rev1', layout: 'reference', dtype: 'words', bytesPerBlock };
    const connector = new StoreConnector({ store, format });
    const workers = [new StoreWorker({ store, memory })];
    const engine = new Engine({ ...options, hashSeed: 7, executor: memory, connector, workers });
    engine.run();
    const prompt = Array.from({ length: 100 }, (_, i) => 1 + (i % 50));
    const { numCachedTokens } = await engine.submit({ prompt, maxTokens: 4 }).result();
    print(`${name}: ${numCachedTokens} of ${prompt.length} tokens came from the store`);
    await engine.shutdown({ drainMs: 10_000 });
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main();
