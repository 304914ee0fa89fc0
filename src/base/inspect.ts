import { type InspectOptions, inspect } from 'node:util';
import { BlockstepError, describeError } from './errors.js';

/** The method by which `util.inspect`, and so `console.log`, shows an object. It is the same symbol in every realm. */
export const INSPECT: unique symbol = Symbol.for('nodejs.util.inspect.custom');

/**
 * What people want to know of an object, on one line: `Scheduler { running: 2, waiting: 3 }`. A fact that is undefined is left
 * out. To look at an object changes nothing and never throws: of what was disposed only `fixed` is shown.
 * @param depth how deep `util.inspect` may still go: below 0 the name alone stands for the object
 * @param options those that `util.inspect` was called with
 * @param read facts that may be unreadable
 */
export function showFacts(
  name: string,
  depth: number,
  options: object,
  fixed: object,
  read: () => object = () => ({}),
): string {
  if (depth < 0) return `[${name}]`;
  const known = Object.entries({ ...fixed, ...readable(read) }).filter(([, fact]) => fact !== undefined);
  const own: InspectOptions = { ...options, breakLength: Number.POSITIVE_INFINITY, compact: 10 };
  return `${name} ${inspect(Object.fromEntries(known), own)}`;
}

function readable(read: () => object): object {
  try {
    return read();
  } catch (error) {
    const isDisposed = error instanceof BlockstepError && error.code === 'ERR_BLOCKSTEP_DISPOSED';
    return isDisposed ? { disposed: true } : { unreadable: describeError(error) };
  }
}

/** A fraction from 0 to 1 for people: `41 %`. */
export function percent(fraction: number): string {
  return `${Math.round(100 * fraction)} %`;
}

/** Bytes for people: `64 MiB`. */
export function bytes(count: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  const unit = count < 1024 ? 0 : Math.min(Math.floor(Math.log2(count) / 10), units.length - 1);
  return `${Number((count / 1024 ** unit).toPrecision(4))} ${units[unit]}`;
}

/** Entries of a plan, or rows, that are shown at most. */
const MOST_SHOWN = 6;

/** The first of so many things in words, and how many more there are. */
export function firstOf(count: number, describe: (i: number) => string): string[] {
  const shown = Array.from({ length: Math.min(count, MOST_SHOWN) }, (_, i) => describe(i));
  return count > MOST_SHOWN ? [...shown, `and ${count - MOST_SHOWN} more`] : shown;
}
