import { types } from 'node:util';
import { describeError, show } from '../../../base/errors.js';
import type { BlockArena } from '../../../transfer/block-arena.js';
import { type BlockStore, Outcome } from '../stores/block-store.js';
import { seal, unseal } from '../stores/sealed-value.js';
import type { JobKind } from './messages.js';

/** Bytes of content that are sealed within one turn of the event loop; at least one block. */
const SEALED_AT_ONCE = 2 ** 20;
/** The valid answers of a store for a key. */
const ANSWERS: Readonly<Record<'has' | 'put', readonly number[]>> = {
  has: [Outcome.done, Outcome.missing],
  put: [Outcome.done, Outcome.full, Outcome.failed],
};

/** The parts of one call. */
export interface CallParts {
  readonly kind: JobKind;
  /** The keys, which the store cannot change. Each key belongs to the place with the same index. */
  readonly keys: readonly string[];
  /** Blocks of the staging arena, as many as keys; none for `has`. */
  readonly places: Int32Array;
  /** Receives the outcomes, one for each key; `failed` at first. */
  readonly outcomes: Uint8Array;
  readonly staging: BlockArena | null;
  /** Called with a fault of the store that happened after its call was over. */
  readonly complain: (error: string) => void;
}

/**
 * One call of a store, which trusts the store in nothing. Only verified values reach the staging
 * arena, whatever the store answers, throws or calls back. An invalid answer becomes an error of
 * the call.
 *
 * Invariant: the staging arena is touched only while the call is open. A call ends by itself or is
 * given up. After that, the store's actions change nothing.
 */
export class StoreCall {
  readonly #parts: CallParts;
  readonly #abort = new AbortController();
  #state: 'open' | 'over' | 'given up' = 'open';
  /** By index of a key: 1 if `visit` was called for it. */
  readonly #seen: Uint8Array;
  #error: string | null = null;

  constructor(parts: CallParts) {
    this.#parts = parts;
    this.#seen = new Uint8Array(parts.keys.length);
  }

  /**
   * Calls the store. Never rejects. @returns the error; null if there was none, or if the call was
   * given up
   */
  async make(store: BlockStore): Promise<string | null> {
    try {
      await this.#call(store);
    } catch (error) {
      this.#fail(describeError(error));
    }
    if (this.#state === 'given up') return null;
    this.#state = 'over';
    return this.#error;
  }

  /** Gives up the call. */
  giveUp(): void {
    this.#state = 'given up';
    // Listeners of the signal must not run inside the step in which the time ran out.
    queueMicrotask(() => this.#abort.abort());
  }

  async #call(store: BlockStore): Promise<void> {
    const { kind, keys, outcomes, staging } = this.#parts;
    const { signal } = this.#abort;
    if (kind === 'has') this.#applyAnswer(kind, await store.has(keys, signal));
    else if (staging === null) throw new Error(`no staging arena for ${kind}`);
    else if (kind === 'get') await this.#get(store, staging);
    else {
      const values = await this.#sealed(staging);
      if (values !== null) this.#applyAnswer(kind, await store.put(keys, values, signal));
    }
    if (this.#error !== null && kind !== 'get') outcomes.fill(Outcome.failed);
  }

  #applyAnswer(kind: 'has' | 'put', answer: unknown): void {
    const { keys, outcomes } = this.#parts;
    if (this.#state !== 'open') return;
    if (!types.isUint8Array(answer) || answer.length !== keys.length)
      this.#fail(
        `${kind} of ${keys.length} keys answered ${showList(answer)}, expected a Uint8Array of as many outcomes`,
      );
    else if (!answer.every((outcome) => ANSWERS[kind].includes(outcome)))
      this.#fail(
        `${kind} answered [${answer.slice(0, 8).join()}], expected outcomes of ${ANSWERS[kind].join()}`,
      );
    else outcomes.set(answer);
  }

  async #get(store: BlockStore, staging: BlockArena): Promise<void> {
    const { keys, outcomes } = this.#parts;
    const { signal } = this.#abort;
    await store.get(keys, (index, value) => this.#visit(staging, index, value), signal);
    if (this.#state !== 'open') return;
    const left = this.#seen.indexOf(0);
    if (left >= 0) this.#fail(`get did not call back for key ${left} of ${keys.length}`);
    const corrupt = keys.filter((_, i) => outcomes[i] === Outcome.corrupt);
    // Without removal, a corrupt value would be found again and again.
    if (corrupt.length > 0) await store.remove(corrupt, signal);
  }

  /** Takes a value that the store has read. Never throws, because the store is the caller. */
  #visit(staging: BlockArena, index: number, value: unknown): void {
    if (this.#state === 'given up') return;
    const { keys, places, outcomes, complain } = this.#parts;
    if (this.#state === 'over') {
      // One complaint is enough, because complaints are read only with the next job.
      this.#state = 'given up';
      complain(`get called back for key ${show(index)} after it was over`);
      return;
    }
    const before = Number.isInteger(index) ? this.#seen[index] : undefined;
    if (before !== 0) {
      const what = before === 1 ? 'twice' : `of ${keys.length}`;
      this.#fail(`get called back for key ${show(index)} ${what}`);
      return;
    }
    this.#seen[index] = 1;
    try {
      outcomes[index] = this.#write(staging, keys[index], places[index], value);
    } catch (error) {
      this.#fail(describeError(error));
    }
  }

  #write(staging: BlockArena, key: string, place: number, value: unknown): Outcome {
    if (value === null || value === undefined) return Outcome.missing;
    if (!types.isUint8Array(value)) {
      this.#fail(`get called back with ${show(value)}, expected a Uint8Array or null`);
      return Outcome.failed;
    }
    const content = unseal(key, value, staging.bytesPerBlock);
    if (content === null) return Outcome.corrupt;
    staging.writeBlock(place, content);
    return Outcome.done;
  }

  /** Returns the values of a `put`, each in its own buffer; null if the call was given up. */
  async #sealed(staging: BlockArena): Promise<Uint8Array[] | null> {
    const { keys, places } = this.#parts;
    // An ArrayBuffer over native memory must be smaller than 4 GiB.
    const read = staging.numBytes < 2 ** 32 ? staging.block.bind(staging) : staging.readBlock.bind(staging);
    const values: Uint8Array[] = [];
    let bytes = 0;
    for (const [i, key] of keys.entries()) {
      bytes += staging.bytesPerBlock;
      if (i > 0 && bytes > SEALED_AT_ONCE) {
        await new Promise(setImmediate);
        bytes = staging.bytesPerBlock;
        if (this.#state !== 'open') return null;
      }
      values.push(seal(key, read(places[i])));
    }
    return values;
  }

  /** Notes the first error. */
  #fail(error: string): void {
    this.#error ??= error.slice(0, 300);
  }
}

function showList(answer: unknown): string {
  return types.isUint8Array(answer) ? `${answer.length} outcomes` : show(answer);
}
