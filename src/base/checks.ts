// Checks names, numbers and flags, and plain data from files.
import { type BlockstepError, badArgument, show } from './errors.js';

/**
 * Longest name of a cache salt, of an adapter, or of the owner of a use of blocks, in UTF-16 units.
 */
export const MAX_NAME = 65_536;

/**
 * Returns `value` if it is a string of `minLength` to `MAX_NAME` UTF-16 units.
 * @throws ERR_BLOCKSTEP_BAD_ARG naming `field`
 */
export function checkName(field: string, value: unknown, minLength: number): string {
  if (typeof value !== 'string') throw badArgument(field, show(value), 'a string');
  if (value.length >= minLength && value.length <= MAX_NAME) return value;
  throw badArgument(
    field,
    `${value.length} characters`,
    `a string of ${minLength} to ${MAX_NAME} characters`,
  );
}

/** Returns `value` if it is a boolean. @throws ERR_BLOCKSTEP_BAD_ARG */
export function checkBoolean(field: string, value: unknown): boolean {
  if (typeof value === 'boolean') return value;
  throw badArgument(field, show(value), 'a boolean');
}

/** Returns `value` if it is a finite number. @throws ERR_BLOCKSTEP_BAD_ARG */
export function checkFinite(field: string, value: unknown): number {
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  throw badArgument(field, show(value), 'a finite number');
}

/** Whether a value is an object. Arrays are objects too. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

/** Whether a value can be a count, a handle or an index: a safe integer, at least 0. */
export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** Whether a value is an object and not an array. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return isRecord(value) && !Array.isArray(value);
}

/** Whether a value is an array all of whose entries pass `isEntry`. */
export function isList(value: unknown, isEntry: (entry: unknown) => boolean): value is unknown[] {
  return Array.isArray(value) && value.every((entry) => isEntry(entry));
}

/**
 * Returns `value` if it is a finite number in [min, max].
 * @throws ERR_BLOCKSTEP_BAD_ARG naming the argument
 */
export function checkNumber(name: string, value: unknown, min: number, max = Number.MAX_VALUE): number {
  if (typeof value === 'number' && value >= min && value <= max) return value;
  const range = max === Number.MAX_VALUE ? `of at least ${min}` : `from ${min} to ${max}`;
  throw badArg(name, value, `a finite number ${range}`);
}

/**
 * Returns `value` if it is one of `allowed`, and the first of them in place of undefined.
 * @throws ERR_BLOCKSTEP_BAD_ARG naming the argument and the allowed values
 */
export function checkOneOf<T extends string>(name: string, value: unknown, allowed: readonly [T, ...T[]]): T {
  if (value === undefined) return allowed[0];
  if (!allowed.includes(value as T)) throw badArg(name, value, `one of ${allowed.join(', ')}`);
  return value as T;
}

/**
 * The error that refuses an argument: ERR_BLOCKSTEP_BAD_ARG, with the argument's name, the expected
 * value, and the actual value.
 */
export function badArg(name: string, value: unknown, expected: string): BlockstepError {
  return badArgument(name, show(value), expected);
}
