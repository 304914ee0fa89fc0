import { describeError } from '../../../base/errors.js';
import type { BlockArena } from '../../../transfer/block-arena.js';
import { type BlockStore, Outcome } from '../stores/block-store.js';
import { seal, unseal } from '../stores/sealed-value.js';
import type { AnswerMessage, JobKind, JobMessage } from './messages.js';

/** Most bytes of content that one call of the store has; one block at least. */
const PIECE_BYTES = 2 ** 23;
/** Most keys that one call of the store has. */
const PIECE_KEYS = 1024;
/** Calls of the store that are under way at once, of reads and of writes each. */
const CALLS = 2;

/**
 * Carries out jobs with a store, on the store's thread. Reads do not wait for writes. A job is done in pieces, so the
 * thread's own memory is bounded: at most `CALLS` pieces of each direction exist at once.
 */
export class ThreadJobs {
  readonly #open: () => Promise<BlockStore>;
  readonly #staging: BlockArena | null;
  readonly #answer: (answer: AnswerMessage) => void;
  #store: Promise<BlockStore> | null = null;
  readonly #queues: Record<'read' | 'write', Slots> = { read: new Slots(CALLS), write: new Slots(CALLS) };

  /** @param open opens the store; called again after it has failed */
  constructor(
    open: () => Promise<BlockStore>,
    staging: BlockArena | null,
    answer: (answer: AnswerMessage) => void,
  ) {
    this.#open = open;
    this.#staging = staging;
    this.#answer = answer;
  }

  /** Opens the store, before the first job needs it. Never rejects: the first job tries again, and says what failed. */
  async open(): Promise<void> {
    await this.#opened().catch(() => {});
  }

  /** Does a job, and answers. Never rejects. */
  async run({ job, kind, keys, places }: JobMessage): Promise<void> {
    const outcomes = new Uint8Array(keys.length).fill(Outcome.failed);
    const errors: string[] = [];
    const store = await this.#opened().catch((error: unknown) => {
      errors.push(describeError(error));
      return null;
    });
    if (store !== null) {
      const size = this.#pieceOf(kind);
      const starts = Array.from({ length: Math.ceil(keys.length / size) }, (_, i) => i * size);
      const slots = this.#queues[kind === 'put' ? 'write' : 'read'];
      const pieces = starts.map((from) =>
        slots.run(async () => {
          // What comes after a failure would fail too, and only later.
          if (errors.length > 0) return;
          const part = [keys.slice(from, from + size), places.slice(from, from + size)] as const;
          const target = outcomes.subarray(from, from + size);
          await this.#call(store, kind, ...part, target).catch((error: unknown) => {
            errors.push(describeError(error));
          });
        }),
      );
      await Promise.all(pieces);
    }
    this.#answer({ job, outcomes, error: errors[0] ?? null });
  }

  /** Ends the store. */
  async close(): Promise<void> {
    const store = await this.#store?.catch(() => null);
    await store?.close();
  }

  #opened(): Promise<BlockStore> {
    if (this.#store !== null) return this.#store;
    const opening = this.#open();
    this.#store = opening;
    opening.catch(() => {
      this.#store = null;
    });
    return opening;
  }

  #pieceOf(kind: JobKind): number {
    if (kind === 'has' || this.#staging === null) return PIECE_KEYS;
    return Math.min(PIECE_KEYS, Math.max(1, Math.floor(PIECE_BYTES / this.#staging.bytesPerBlock)));
  }

  async #call(
    store: BlockStore,
    kind: JobKind,
    keys: readonly string[],
    places: Int32Array,
    outcomes: Uint8Array,
  ): Promise<void> {
    if (kind === 'has') outcomes.set(await store.has(keys));
    else if (this.#staging === null) throw new Error(`no staging arena for ${kind}`);
    else if (kind === 'get') await this.#get(store, this.#staging, keys, places, outcomes);
    else outcomes.set(await store.put(keys, this.#sealed(this.#staging, keys, places)));
  }

  async #get(
    store: BlockStore,
    staging: BlockArena,
    keys: readonly string[],
    places: Int32Array,
    outcomes: Uint8Array,
  ): Promise<void> {
    const refused: string[] = [];
    await store.get(keys, (i, value) => {
      outcomes[i] = Outcome.missing;
      if (value === null) return;
      const content = unseal(keys[i], value, staging.bytesPerBlock);
      outcomes[i] = content === null ? Outcome.corrupt : Outcome.done;
      if (content === null) refused.push(keys[i]);
      else staging.writeBlock(places[i], content);
    });
    // A value that nobody can use would be found again and again.
    if (refused.length > 0) await store.remove(refused);
  }

  #sealed(staging: BlockArena, keys: readonly string[], places: Int32Array): Uint8Array[] {
    // An ArrayBuffer over native memory has less than 4 GiB.
    const read = staging.numBytes < 2 ** 32 ? staging.block.bind(staging) : staging.readBlock.bind(staging);
    return keys.map((key, i) => seal(key, read(places[i])));
  }
}

/** Runs at most so many functions at once, the others in the order in which they came. */
class Slots {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(count: number) {
    this.#free = count;
  }

  async run(act: () => Promise<void>): Promise<void> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      await act();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free++;
      else next();
    }
  }
}
