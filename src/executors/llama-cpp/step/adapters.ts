import type { ExecutorPlan } from '../../../engine/executor/executor.js';
import { EntryError } from '../sampling/entry-error.js';

/** Most names in a message. */
const MOST_SHOWN = 10;

/** The LoRA adapters of a model by name, as programs number them. */
export class Adapters {
  readonly #numbers: ReadonlyMap<string, number>;
  /** [entry] the adapters of a step; reused by the next step. */
  readonly #ofEntries: Int32Array;

  /**
   * @param names in the order of the model
   * @param mostEntries of a step
   */
  constructor(names: readonly string[], mostEntries: number) {
    this.#numbers = new Map(names.map((name, number) => [name, number]));
    this.#ofEntries = new Int32Array(mostEntries).fill(-1);
  }

  /** The names that a request may give, for messages. */
  get inWords(): string {
    const names = [...this.#numbers.keys()];
    if (names.length === 0) return 'absent: the model has no adapters';
    const more = names.length > MOST_SHOWN ? `, and ${names.length - MOST_SHOWN} more` : '';
    return `an adapter of the model: ${names.slice(0, MOST_SHOWN).join(', ')}${more}`;
  }

  has(name: string): boolean {
    return this.#numbers.has(name);
  }

  /**
   * Finds the adapters of a plan's entries.
   * @param errors [entry] receives `EntryError.sampler` if there is no such adapter. The entry is
   * then computed without, under the name that nobody else may use
   * @returns [entry] the number of its adapter; -1: none
   */
  find({ numRequests, requests }: ExecutorPlan, errors: Uint8Array): Int32Array {
    const found = this.#ofEntries;
    for (let i = 0; i < numRequests; i++) {
      const { adapter } = requests[i];
      const number = adapter ? this.#numbers.get(adapter) : undefined;
      if (adapter && number === undefined) errors[i] = EntryError.sampler;
      found[i] = number ?? -1;
    }
    return found;
  }
}
