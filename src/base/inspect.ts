import { type InspectOptions, inspect } from 'node:util';
import { BlockstepError, describeError } from './errors.js';

/**
 * The symbol of the method by which `util.inspect`, and so `console.log`, shows an object. It is
 * the same symbol in every realm.
 */
export const INSPECT: unique symbol = Symbol.for('nodejs.util.inspect.custom');

/**
 * An object on one line, with its most useful facts: `Scheduler { running: 2, waiting: 3 }`. A fact
 * that is undefined is left out. Showing an object changes nothing and never throws. For a disposed
 * object only the facts in `fixed` are shown.
 * @param depth remaining depth of `util.inspect`; below 0 the name alone is shown
 * @param options the options of the call of `util.inspect`
 * @param fixed facts that can always be read
 * @param read reads facts that may be unreadable, for instance because the object was disposed
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

/** A fraction from 0 to 1 as whole percent, for people: `41 %`. */
export function percent(fraction: number): string {
  return `${Math.round(100 * fraction)} %`;
}

/** A number of bytes with its unit, for people: `64 MiB`. */
export function bytes(count: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  const unit = count < 1024 ? 0 : Math.min(Math.floor(Math.log2(count) / 10), units.length - 1);
  return `${Number((count / 1024 ** unit).toPrecision(4))} ${units[unit]}`;
}

/** Most entries of a plan, or rows of outputs, that are shown. */
const MOST_SHOWN = 6;

/**
 * The first few of `count` items in words, and how many more there are: `['a', ..., 'and 3 more']`.
 * @param describe describes the item with an index
 */
export function firstOf(count: number, describe: (i: number) => string): string[] {
  const shown = Array.from({ length: Math.min(count, MOST_SHOWN) }, (_, i) => describe(i));
  return count > MOST_SHOWN ? [...shown, `and ${count - MOST_SHOWN} more`] : shown;
}
