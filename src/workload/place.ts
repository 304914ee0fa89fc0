import { BlockstepError } from '../base/errors.js';

/**
 * Longest prompt or output of a trace, in tokens. No model takes as many, and such a prompt still
 * fits into memory.
 */
export const MAX_TOKENS = 2 ** 24;

/** How many characters of a bad value a message shows. */
const SHOWN_LENGTH = 60;

/** A place in a trace, for error messages. Lines count from 1. */
export interface Place {
  readonly file: string;
  line: number;
}

/**
 * The error for a trace that cannot be used: `file:line:column: problem`. `column` is null if no
 * single column is wrong.
 */
export function badTrace(place: Place, column: string | null, problem: string): BlockstepError {
  const where = column === null ? `${place.file}:${place.line}` : `${place.file}:${place.line}:${column}`;
  return new BlockstepError('ERR_BLOCKSTEP_BAD_TRACE', `${where}: ${problem}`);
}

/** Whether `error` came from `badTrace`. */
export function isBadTrace(error: unknown): error is BlockstepError {
  return error instanceof BlockstepError && error.code === 'ERR_BLOCKSTEP_BAD_TRACE';
}

/**
 * A value of a trace as messages print it: JSON, shortened. NaN and infinities, which JSON does not
 * have, print as they are.
 */
export function shown(value: unknown): string {
  if (value === undefined) return 'nothing';
  const text = typeof value === 'number' ? String(value) : JSON.stringify(value);
  return text.length > SHOWN_LENGTH ? `${text.slice(0, SHOWN_LENGTH)}...` : text;
}

/**
 * Checks a number of a trace.
 * @param original the bad value in the message, if it differs from `value`
 * @returns `value`, an integer in [min, max]
 * @throws ERR_BLOCKSTEP_BAD_TRACE if `value` is no such integer
 */
export function integerField(
  place: Place,
  column: string,
  value: unknown,
  min: number,
  max: number,
  original = value,
): number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < min) {
    throw badTrace(place, column, `expected an integer >= ${min}, got ${shown(original)}`);
  }
  if (value > max) throw badTrace(place, column, `expected an integer <= ${max}, got ${shown(original)}`);
  return value;
}

/** Like `integerField`, for the text of a CSV field. */
export function integerText(place: Place, column: string, text: string, min: number, max: number): number {
  return integerField(place, column, /^-?\d+$/.test(text) ? Number(text) : Number.NaN, min, max, text);
}
