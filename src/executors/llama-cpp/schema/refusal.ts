// The refusals of schemas, and the limits of their cost.
import { type BlockstepError, badArgument } from '../../../base/errors.js';

/**
 * Limits of a schema: the work of its conversion, and the length of its grammar. Both bound the
 * time.
 */
const MOST_WORK = 100_000;
const MOST_LENGTH = 2 ** 18;
const MOST_COUNTED = 50_000;

/** The error that refuses a schema. @param at the path of the keyword in the schema */
export function refuse(at: string, got: string, expected: string): BlockstepError {
  const place = at.length > 200 ? `${at.slice(0, 100)}...${at.slice(-100)}` : at;
  return badArgument(place, got, expected);
}

/** Counts the cost of converting one schema. */
export class Budget {
  #work = MOST_WORK;
  #length = MOST_LENGTH;
  #counted = MOST_COUNTED;
  /** The keyword in conversion, for messages. */
  at = 'schema';

  /** Counts steps of the conversion. @throws ERR_BLOCKSTEP_BAD_ARG */
  work(steps: number): void {
    this.#work -= steps;
    if (this.#work < 0)
      throw refuse(this.at, 'one that takes more', `less to convert: at most ${MOST_WORK} steps in all`);
  }

  /** Counts characters of the grammar. @throws ERR_BLOCKSTEP_BAD_ARG */
  length(chars: number): void {
    this.#length -= chars;
    if (this.#length < 0)
      throw refuse(this.at, 'one that is longer', `a grammar of at most ${MOST_LENGTH} characters in all`);
  }

  /** Counts repetitions. llama.cpp makes a rule for each. @throws ERR_BLOCKSTEP_BAD_ARG */
  count(times: number): void {
    this.#counted -= times;
    if (this.#counted < 0)
      throw refuse(this.at, `${times}`, `less: all counts of a schema together are at most ${MOST_COUNTED}`);
  }
}
