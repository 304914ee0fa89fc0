import type { Run } from './run.js';
import { TemplateError } from './template-error.js';
import { index, OF_TEXT } from './text-methods.js';
import { type Callable, compare, equal, itemsOf, pairsOf, str, type Value } from './values.js';

type Method = Callable['call'];

/** A method of a value; undefined if it has none with that name. */
export function methodOf(value: Value, name: string, run: Run): Method | undefined {
  if (typeof value === 'string') {
    run.step(value.length);
    return Object.hasOwn(OF_TEXT, name) ? OF_TEXT[name](value, run) : undefined;
  }
  if (Array.isArray(value)) return Object.hasOwn(OF_LIST, name) ? OF_LIST[name](value, run) : undefined;
  return value instanceof Map && Object.hasOwn(OF_DICT, name) ? OF_DICT[name](value, run) : undefined;
}

const OF_LIST: Readonly<Record<string, (of: Value[], run: Run) => Method>> = {
  append:
    (of, run) =>
    ([value]) => {
      run.step();
      of.push(value);
      return null;
    },
  extend:
    (of, run) =>
    ([list]) => {
      const items = [...itemsOf(list)];
      run.step(1000 * items.length);
      for (const each of items) of.push(each);
      return null;
    },
  insert:
    (of, run) =>
    ([at, value]) => {
      run.step(of.length);
      of.splice(index(at), 0, value);
      return null;
    },
  pop:
    (of, run) =>
    ([at]) => {
      run.step(of.length);
      if (of.length === 0) throw new TemplateError('pop from empty list');
      return of.splice(index(at ?? -1), 1)[0];
    },
  remove:
    (of) =>
    ([value]) => {
      const place = of.findIndex((each) => equal(each, value));
      if (place < 0) throw new TemplateError('list.remove(x): x not in list');
      of.splice(place, 1);
      return null;
    },
  index:
    (of) =>
    ([value]) => {
      const place = of.findIndex((each) => equal(each, value));
      if (place < 0) throw new TemplateError('the value is not in list');
      return place;
    },
  count:
    (of) =>
    ([value]) =>
      of.filter((each) => equal(each, value)).length,
  copy: (of) => () => [...of],
  clear: (of) => () => {
    of.length = 0;
    return null;
  },
  reverse: (of) => () => {
    of.reverse();
    return null;
  },
  sort: (of) => () => {
    of.sort(compare);
    return null;
  },
};

const OF_DICT: Readonly<Record<string, (of: Map<Value, Value>, run: Run) => Method>> = {
  get:
    (of) =>
    ([key, otherwise]) =>
      of.has(key) ? of.get(key) : (otherwise ?? null),
  items: (of) => () => pairsOf(of),
  keys: (of) => () => [...of.keys()],
  values: (of) => () => [...of.values()],
  copy: (of) => () => new Map(of),
  update:
    (of) =>
    ([other], named) => {
      for (const [key, value] of other instanceof Map ? other : []) of.set(key, value);
      for (const [key, value] of named) of.set(key, value);
      return null;
    },
  setdefault:
    (of) =>
    ([key, value]) => {
      if (!of.has(key)) of.set(key, value ?? null);
      return of.get(key);
    },
  pop:
    (of) =>
    ([key, otherwise]) => {
      const value = of.has(key) ? of.get(key) : otherwise;
      if (value === undefined) throw new TemplateError(`KeyError: ${str(key)}`);
      of.delete(key);
      return value;
    },
  clear: (of) => () => {
    of.clear();
    return null;
  },
};
