import { padded, percentFormat } from './format.js';
import { jsonText } from './json-text.js';
import { binary, item } from './operators.js';
import type { Run } from './run.js';
import { TemplateError } from './template-error.js';
import { TESTS } from './tests.js';
import { capitalized, OF_TEXT, titled } from './text-methods.js';
import {
  characters,
  compare,
  equal,
  float,
  fromJs,
  isFloat,
  itemsOf,
  numberOf,
  pairsOf,
  repr,
  str,
  Tuple,
  truth,
  typeName,
  Undefined,
  type Value,
} from './values.js';

/** A filter, as in `value | filter`. */
export type Filter = (
  value: Value,
  args: readonly Value[],
  named: ReadonlyMap<string, Value>,
  run: Run,
) => Value;

/** Converts the first two arguments of a text filter to text, numbers too. */
function textual(value: Value, place: number): Value {
  return place < 2 ? str(value) : value;
}

function numeric(value: Value): number {
  const number = numberOf(value);
  if (number === null) throw new TemplateError(`a number is required, got '${typeName(value)}'`);
  return number;
}

/** The items of a value, counted as steps. */
function listOf(value: Value, run: Run): readonly Value[] {
  const items = itemsOf(value);
  run.step(100 * items.length);
  return items;
}

/** An item; undefined, with this reason, if there is none. */
function itemOr(value: Value, at: number, why: string): Value {
  const found = itemsOf(value).at(at);
  return found === undefined ? new Undefined(why) : found;
}

/** An attribute by its path, such as `function.name`. */
function byPath(value: Value, path: Value, run: Run): Value {
  let found = value;
  for (const part of str(path).split('.')) found = item(found, /^\d+$/.test(part) ? Number(part) : part, run);
  return found;
}

/** The key by which `sort`, `min` and other filters compare items. */
function keyOf(named: ReadonlyMap<string, Value>, run: Run): (value: Value) => Value {
  const path = named.get('attribute');
  const isSensitive = truth(named.get('case_sensitive') ?? false);
  return (value) => {
    const key = path === undefined || path === null ? value : byPath(value, path, run);
    return typeof key === 'string' && !isSensitive ? key.toLowerCase() : key;
  };
}

function test(args: readonly Value[], run: Run): (value: Value) => boolean {
  if (args.length === 0) return truth;
  const name = str(args[0]);
  const found = Object.hasOwn(TESTS, name) ? TESTS[name] : undefined;
  if (found === undefined) throw new TemplateError(`no test named '${name}'`);
  return (value) => found(value, args.slice(1), run);
}

const chosen =
  (byAttribute: boolean, wanted: boolean): Filter =>
  (value, args, _, run) => {
    const passes = test(byAttribute ? args.slice(1) : args, run);
    return listOf(value, run).filter(
      (each) => passes(byAttribute ? byPath(each, args[0], run) : each) === wanted,
    );
  };

const extreme =
  (sign: number): Filter =>
  (value, _, named, run) => {
    const key = keyOf(named, run);
    const items = listOf(value, run);
    if (items.length === 0) return new Undefined('No aggregated item, sequence was empty.');
    return items.reduce((best, each) => (sign * compare(key(each), key(best)) > 0 ? each : best));
  };

const LETTERS: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&#34;',
  "'": '&#39;',
};
const escaped: Filter = (value) => str(value).replace(/[&<>"']/g, (letter) => LETTERS[letter]);
const length: Filter = (value) => {
  if (value instanceof Map) return value.size;
  return typeof value === 'string' ? characters(value).length : itemsOf(value).length;
};
const otherwise: Filter = (value, [given, alsoFalse], named) =>
  value instanceof Undefined || (truth(alsoFalse ?? named.get('boolean') ?? false) && !truth(value))
    ? given !== undefined
      ? given
      : (named.get('default_value') ?? '')
    : value;

function rounded(number: number, places: number): number {
  const scale = 10 ** places;
  const scaled = number * scale;
  const floor = Math.floor(scaled);
  // Python rounds half to even.
  if (scaled - floor === 0.5) return (floor % 2 === 0 ? floor : floor + 1) / scale;
  return Math.round(scaled) / scale;
}

function indented(value: Value, args: readonly Value[], named: ReadonlyMap<string, Value>, run: Run): string {
  const width = args[0] ?? named.get('width') ?? 4;
  const space = typeof width === 'string' ? width : padded('', numeric(width), '>', ' ');
  const first = truth(args[1] ?? named.get('first') ?? false);
  const blank = truth(args[2] ?? named.get('blank') ?? false);
  const lines = str(value).split('\n');
  run.fits(str(value).length + lines.length * space.length);
  return lines.map((line, i) => ((i === 0 ? first : blank || line !== '') ? space + line : line)).join('\n');
}

/** The filters by their names. */
export const FILTERS: Readonly<Record<string, Filter>> = {
  upper: (value) => str(value).toUpperCase(),
  lower: (value) => str(value).toLowerCase(),
  title: (value) => titled(str(value)),
  capitalize: (value) => capitalized(str(value)),
  trim: (value, args, named, run) => OF_TEXT['strip'](str(value), run)(args, named),
  string: str,
  safe: (value) => value,
  e: escaped,
  escape: escaped,
  tojson: (value, [indent], named) =>
    jsonText(value, indent === undefined ? named : new Map([...named, ['indent', indent]])),
  // DeepSeek's templates in llama.cpp use this filter, for call arguments that come as text.
  from_json: (value) => fromJson(str(value)),
  length,
  count: length,
  default: otherwise,
  d: otherwise,
  list: (value, _, __, run) => [...listOf(value, run)],
  first: (value) => itemOr(value, 0, 'No first item, sequence was empty.'),
  last: (value) => itemOr(value, -1, 'No last item, sequence was empty.'),
  reverse: (value) =>
    typeof value === 'string' ? Array.from(value).reverse().join('') : [...itemsOf(value)].reverse(),
  join: (value, args, named, run) => {
    const path = args[1] ?? named.get('attribute');
    const parts = listOf(value, run).map((each) => str(path === undefined ? each : byPath(each, path, run)));
    const between = str(args[0] ?? named.get('d') ?? '');
    run.fits(parts.reduce((sum, part) => sum + part.length + between.length, 0));
    return parts.join(between);
  },
  map: (value, args, named, run) => {
    const path = named.get('attribute');
    const items = listOf(value, run);
    if (path !== undefined)
      return items.map((each) => {
        const found = byPath(each, path, run);
        return found instanceof Undefined ? (named.get('default') ?? found) : found;
      });
    const name = str(args[0]);
    const filter = Object.hasOwn(FILTERS, name) ? FILTERS[name] : undefined;
    if (filter === undefined) throw new TemplateError(`no filter named '${name}'`);
    return items.map((each) => filter(each, args.slice(1), named, run));
  },
  select: chosen(false, true),
  reject: chosen(false, false),
  selectattr: chosen(true, true),
  rejectattr: chosen(true, false),
  sort: (value, [turned], named, run) => {
    const key = keyOf(named, run);
    const sign = truth(turned ?? named.get('reverse') ?? false) ? -1 : 1;
    return [...listOf(value, run)].sort((a, b) => sign * compare(key(a), key(b)));
  },
  dictsort: (value, _, named, run) => {
    if (!(value instanceof Map)) throw new TemplateError(`'${typeName(value)}' object has no items`);
    const key = keyOf(named, run);
    const at = named.get('by') === 'value' ? 1 : 0;
    const sign = truth(named.get('reverse') ?? false) ? -1 : 1;
    return pairsOf(value).sort((a, b) => sign * compare(key((a as Tuple)[at]), key((b as Tuple)[at])));
  },
  items: (value) => (value instanceof Map ? pairsOf(value) : []),
  unique: (value, _, named, run) => {
    const key = keyOf(named, run);
    const seen: Value[] = [];
    return listOf(value, run).filter((each) => {
      run.step(10 * seen.length);
      if (seen.some((other) => equal(other, key(each)))) return false;
      seen.push(key(each));
      return true;
    });
  },
  groupby: (value, [path], named, run) => {
    const groups: [Value, Value[]][] = [];
    const sorted = FILTERS['sort'](
      value,
      [],
      new Map([['attribute', path ?? named.get('attribute')]]),
      run,
    ) as Value[];
    for (const each of sorted) {
      const key = byPath(each, path ?? named.get('attribute'), run);
      const last = groups.at(-1);
      if (last !== undefined && equal(last[0], key)) last[1].push(each);
      else groups.push([key, [each]]);
    }
    return groups.map((group) => Tuple.of(...group));
  },
  batch: (value, [size, fill], _, run) => {
    const items = listOf(value, run);
    const count = Math.max(1, numeric(size));
    return Array.from({ length: Math.ceil(items.length / count) }, (_each, i) => {
      const part = items.slice(i * count, (i + 1) * count);
      return fill === undefined
        ? part
        : [...part, ...Array<Value>(Math.min(1000, count - part.length)).fill(fill)];
    });
  },
  sum: (value, args, named, run) => {
    const path = args[0] ?? named.get('attribute');
    const items = listOf(value, run).map((each) => (path === undefined ? each : byPath(each, path, run)));
    return items.reduce((sum, each) => binary('+', sum, each, run), args[1] ?? named.get('start') ?? 0);
  },
  min: extreme(-1),
  max: extreme(1),
  abs: (value) => (isFloat(value) ? float(Math.abs(numeric(value))) : Math.abs(numeric(value))),
  round: (value, [places], named) => {
    const count = numeric(places ?? named.get('precision') ?? 0);
    return float(rounded(numeric(value), count));
  },
  int: (value, [given], named) => {
    const number = typeof value === 'string' ? Number(value.trim() || 'x') : numberOf(value);
    return number === null || !Number.isFinite(number)
      ? (given ?? named.get('default') ?? 0)
      : Math.trunc(number);
  },
  float: (value, [given], named) => {
    const number = typeof value === 'string' ? Number(value.trim() || 'x') : numberOf(value);
    return number === null || Number.isNaN(number)
      ? (given ?? named.get('default') ?? float(0))
      : float(number);
  },
  replace: (value, args, named, run) => OF_TEXT['replace'](str(value), run)(args.map(textual), named),
  indent: indented,
  format: (value, args, named) =>
    percentFormat(str(value), named.size > 0 ? new Map(named) : Tuple.of(...args)),
  center: (value, [width]) => padded(str(value), numeric(width ?? 80), '^', ' '),
  truncate: (value, args, named) => {
    const most = numeric(args[0] ?? named.get('length') ?? 255);
    const end = str(args[2] ?? named.get('end') ?? '...');
    const of = str(value);
    if (of.length <= most + numeric(args[3] ?? named.get('leeway') ?? 5)) return of;
    const cut = of.slice(0, Math.max(0, most - end.length));
    const word = truth(args[1] ?? named.get('killwords') ?? false) ? -1 : cut.lastIndexOf(' ');
    return (word < 0 ? cut : cut.slice(0, word)) + end;
  },
  wordcount: (value) => str(value).match(/\w+/g)?.length ?? 0,
  striptags: (value) => str(value).replace(/<[^<>]*>/g, ''),
  pprint: (value) => repr(value),
  attr: (value, [name], _, run) => item(value, name, run),
};

function fromJson(text: string): Value {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new TemplateError(`from_json got no JSON: ${(error as Error).message}`);
  }
  return fromJs(value);
}
