import { BlockstepError } from '../../../base/errors.js';
import { EmbeddedStore } from './embedded-store.js';
import { isDamage } from './file-check.js';
import type { FileOrder, FileReply } from './process-messages.js';
import { SeenWindows, type SentParcel, SentWindows } from './windows.js';

/** What the process of a file runs: `process-main FILE MAX_BYTES`, with a channel to the process of the engine. */
class FileProcess {
  readonly #store: EmbeddedStore;
  readonly #sent = new SentWindows();
  readonly #seen = new SeenWindows();
  /** By call: values that were read, and not taken. */
  readonly #untaken = new Map<number, SentParcel>();
  readonly #running = new Set<Promise<void>>();

  constructor(store: EmbeddedStore) {
    this.#store = store;
  }

  handle(order: FileOrder): void {
    if (order.kind === 'close') void this.end();
    else if (order.kind === 'taken') this.#free(order.call);
    else {
      const run = this.#run(order).catch((error: unknown) => {
        say({ kind: 'failed', call: order.call, error: String((error as Error).message) });
      });
      this.#running.add(run);
      void run.then(() => this.#running.delete(run));
    }
  }

  /** Ends what has begun, then the process. */
  async end(): Promise<void> {
    await Promise.all(this.#running);
    await this.#store.close();
    process.exit(0);
  }

  async #run(order: Exclude<FileOrder, { kind: 'close' | 'taken' }>): Promise<void> {
    const { call, kind, keys } = order;
    if (kind === 'get') await this.#read(call, keys);
    else say({ kind: 'done', call, outcomes: await this.#change(order) });
  }

  async #change(order: Exclude<FileOrder, { kind: 'close' | 'taken' | 'get' }>): Promise<Uint8Array | null> {
    const { keys } = order;
    if (order.kind === 'has') return this.#store.has(keys);
    if (order.kind === 'put') return this.#store.put(keys, this.#seen.unpack(order.values) as Uint8Array[]);
    await this.#store.remove(keys);
    return null;
  }

  async #read(call: number, keys: readonly string[]): Promise<void> {
    const parcel = this.#sent.begin(keys.length);
    // What is visited is valid in the visit alone. An embedded store visits in the order of the keys.
    await this.#store.get(keys, (_, value) => parcel.add(value));
    this.#untaken.set(call, parcel);
    say({ kind: 'read', call, values: parcel.end() });
  }

  #free(call: number): void {
    this.#untaken.get(call)?.free();
    this.#untaken.delete(call);
  }
}

function say(reply: FileReply): void {
  // Nobody is there to hear it when the engine has ended.
  if (process.connected) process.send?.(reply, undefined, undefined, () => {});
}

async function main(path: string, maxBytes: number): Promise<void> {
  const early: FileOrder[] = [];
  let file: FileProcess | null = null;
  let isLeft = false;
  process.on('message', (order: FileOrder) => {
    if (file === null) early.push(order);
    else file.handle(order);
  });
  // However the engine's process has ended, this one ends behind it.
  process.on('disconnect', () => {
    isLeft = true;
    if (file !== null) void file.end();
  });
  // What is typed at a terminal goes to all its processes. The engine may still have values to store.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
  try {
    file = new FileProcess(await EmbeddedStore.open({ kind: 'embedded', path, maxBytes }));
  } catch (error) {
    const text =
      error instanceof BlockstepError ? `${error.code}: ${error.message}` : String((error as Error).message);
    process.send?.({ kind: 'refused', error: text, isDamaged: isDamage(error) } satisfies FileReply, () =>
      process.exit(1),
    );
    return;
  }
  say({ kind: 'open' });
  for (const order of early) file.handle(order);
  if (isLeft) void file.end();
}

await main(process.argv[2], Number(process.argv[3]));
