import { padded } from './format.js';
import type { Run } from './run.js';
import { TemplateError } from './template-error.js';
import { type Callable, itemsOf, numberOf, Tuple, typeName, type Value } from './values.js';

type Method = Callable['call'];

/** The set of characters that `strip` and related methods remove; null for white space. */
const stripped = (chars: Value): ReadonlySet<string> | null =>
  typeof chars === 'string' ? new Set(Array.from(chars)) : null;

function stripStart(text: string, set: ReadonlySet<string> | null): string {
  if (set === null) return text.trimStart();
  let from = 0;
  for (const letter of text) {
    if (!set.has(letter)) break;
    from += letter.length;
  }
  return text.slice(from);
}

function stripEnd(text: string, set: ReadonlySet<string> | null): string {
  if (set === null) return text.trimEnd();
  const all = Array.from(text);
  let to = all.length;
  while (to > 0 && set.has(all[to - 1])) to--;
  return all.slice(0, to).join('');
}

/** The argument at a position, or with a name; undefined if absent. */
function arg(args: readonly Value[], named: ReadonlyMap<string, Value>, place: number, name: string): Value {
  return args[place] ?? named.get(name);
}

function text(value: Value): string {
  if (typeof value === 'string') return value;
  throw new TemplateError(`expected str, got '${typeName(value)}'`);
}

/** An integer. @throws TemplateError */
export function index(value: Value): number {
  const number = numberOf(value);
  if (number === null) throw new TemplateError(`expected int, got '${typeName(value)}'`);
  return Math.trunc(number);
}

/**
 * Splits like Python: at a separator, or at white space if there is none. At most `most` splits are
 * made, from the front.
 */
function split(of: string, at: Value, most: number): string[] {
  if (at === undefined || at === null) {
    const parts: string[] = [];
    let rest = of.trimStart();
    while (rest !== '') {
      const end = parts.length === most ? -1 : rest.search(/\s/);
      if (end < 0) {
        parts.push(parts.length === most ? rest : rest.trimEnd());
        break;
      }
      parts.push(rest.slice(0, end));
      rest = rest.slice(end).trimStart();
    }
    return parts;
  }
  if (at === '') throw new TemplateError('empty separator');
  const parts = of.split(text(at));
  return most < 0 || parts.length <= most + 1
    ? parts
    : [...parts.slice(0, most), parts.slice(most).join(text(at))];
}

/** The same, from the back. */
function rsplit(of: string, at: Value, most: number): string[] {
  if (at === undefined || at === null) {
    const turned = split(Array.from(of).reverse().join(''), null, most);
    return turned.map((part) => Array.from(part).reverse().join('')).reverse();
  }
  const parts = split(of, at, -1);
  if (most < 0 || parts.length <= most + 1) return parts;
  const cut = parts.length - most;
  return [parts.slice(0, cut).join(text(at)), ...parts.slice(cut)];
}

const LETTERS = /\p{L}+/gu;
export const titled = (of: string): string =>
  of.replace(LETTERS, (word) => word[0].toUpperCase() + word.slice(1).toLowerCase());
export const capitalized = (of: string): string => of.slice(0, 1).toUpperCase() + of.slice(1).toLowerCase();

const predicate =
  (pattern: RegExp) =>
  (of: string): Method =>
  () =>
    pattern.test(of);

/** The methods of texts by their names. */
export const OF_TEXT: Readonly<Record<string, (of: string, run: Run) => Method>> = {
  upper: (of) => () => of.toUpperCase(),
  lower: (of) => () => of.toLowerCase(),
  casefold: (of) => () => of.toLowerCase(),
  title: (of) => () => titled(of),
  capitalize: (of) => () => capitalized(of),
  swapcase: (of) => () =>
    Array.from(of, (c) => (c === c.toUpperCase() ? c.toLowerCase() : c.toUpperCase())).join(''),
  strip:
    (of) =>
    ([chars]) =>
      stripEnd(stripStart(of, stripped(chars)), stripped(chars)),
  lstrip:
    (of) =>
    ([chars]) =>
      stripStart(of, stripped(chars)),
  rstrip:
    (of) =>
    ([chars]) =>
      stripEnd(of, stripped(chars)),
  split: (of) => (args, named) =>
    split(of, arg(args, named, 0, 'sep'), index(arg(args, named, 1, 'maxsplit') ?? -1)),
  rsplit: (of) => (args, named) =>
    rsplit(of, arg(args, named, 0, 'sep'), index(arg(args, named, 1, 'maxsplit') ?? -1)),
  splitlines: (of) => () => {
    const lines = of.split(/\r\n|[\n\r\v\f\u0085\u2028\u2029]/);
    return lines.at(-1) === '' ? lines.slice(0, -1) : lines;
  },
  partition:
    (of) =>
    ([at]) => {
      const place = of.indexOf(text(at));
      if (place < 0) return Tuple.of(of, '', '');
      return Tuple.of(of.slice(0, place), at, of.slice(place + text(at).length));
    },
  rpartition:
    (of) =>
    ([at]) => {
      const place = of.lastIndexOf(text(at));
      if (place < 0) return Tuple.of('', '', of);
      return Tuple.of(of.slice(0, place), at, of.slice(place + text(at).length));
    },
  replace:
    (of, run) =>
    ([from, to, most]) => {
      const parts = split(of, from === '' ? null : from, index(most ?? -1));
      if (from === '') return of;
      run.fits(of.length + parts.length * text(to).length);
      return parts.join(text(to));
    },
  startswith:
    (of) =>
    ([begin]) =>
      [begin].flat().some((each) => of.startsWith(text(each))),
  endswith:
    (of) =>
    ([end]) =>
      [end].flat().some((each) => of.endsWith(text(each))),
  removeprefix:
    (of) =>
    ([begin]) =>
      of.startsWith(text(begin)) ? of.slice(text(begin).length) : of,
  removesuffix:
    (of) =>
    ([end]) =>
      text(end) !== '' && of.endsWith(text(end)) ? of.slice(0, -text(end).length) : of,
  find:
    (of) =>
    ([what, from]) =>
      of.indexOf(text(what), index(from ?? 0)),
  rfind:
    (of) =>
    ([what]) =>
      of.lastIndexOf(text(what)),
  index:
    (of) =>
    ([what]) => {
      const place = of.indexOf(text(what));
      if (place < 0) throw new TemplateError('substring not found');
      return place;
    },
  count:
    (of) =>
    ([what]) =>
      what === '' ? of.length + 1 : of.split(text(what)).length - 1,
  join:
    (of, run) =>
    ([list]) => {
      const parts = itemsOf(list).map(text);
      run.fits(parts.reduce((sum, part) => sum + part.length + of.length, 0));
      return parts.join(of);
    },
  isdigit: predicate(/^\p{Nd}+$/u),
  isdecimal: predicate(/^\p{Nd}+$/u),
  isnumeric: predicate(/^\p{N}+$/u),
  isalpha: predicate(/^\p{L}+$/u),
  isalnum: predicate(/^[\p{L}\p{N}]+$/u),
  isspace: predicate(/^\s+$/),
  isupper: (of) => () => of !== of.toLowerCase() && of === of.toUpperCase(),
  islower: (of) => () => of !== of.toUpperCase() && of === of.toLowerCase(),
  ljust:
    (of) =>
    ([width, fill]) =>
      padded(of, index(width), '<', text(fill ?? ' ')),
  rjust:
    (of) =>
    ([width, fill]) =>
      padded(of, index(width), '>', text(fill ?? ' ')),
  center:
    (of) =>
    ([width, fill]) =>
      padded(of, index(width), '^', text(fill ?? ' ')),
  zfill:
    (of) =>
    ([width]) =>
      padded(of, index(width), '=', '0'),
  encode: (of) => () => of,
};
