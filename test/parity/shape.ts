/** A problem of a document: its place, its kind and its description. */
export interface Problem {
  path: string;
  kind: 'unknown field' | 'malformed';
  detail: string;
}

/**
 * A description of JSON that is its checker and its TypeScript type at once, so that the two cannot drift apart.
 * check() adds a problem for every place that does not fit, and for every field that the shape does not name.
 */
export interface Shape<T> {
  check(value: unknown, path: string, problems: Problem[]): void;
  /** Carries T for TypeOf; never set. */
  readonly type?: T;
}

/** The TypeScript type that a shape describes. */
export type TypeOf<S> = S extends Shape<infer T> ? T : never;

type Fields = Record<string, Shape<unknown>>;
type TypesOf<S extends readonly Shape<unknown>[]> = { -readonly [K in keyof S]: TypeOf<S[K]> };

function scalar<T>(name: string, fits: (value: unknown) => boolean): Shape<T> {
  return {
    check(value, path, problems) {
      if (!fits(value)) malformed(problems, path, name, value);
    },
  };
}

function malformed(problems: Problem[], path: string, wanted: string, value: unknown): void {
  const shown = value === undefined ? 'nothing' : JSON.stringify(value).slice(0, 60);
  problems.push({ path, kind: 'malformed', detail: `expected ${wanted}, got ${shown}` });
}

export const integer: Shape<number> = scalar('an integer', Number.isInteger);
export const number: Shape<number> = scalar('a number', Number.isFinite);
export const text: Shape<string> = scalar('a string', (value) => typeof value === 'string');
export const boolean: Shape<boolean> = scalar('true or false', (value) => typeof value === 'boolean');
/** 0 or 1, which is how traces write a truth value. */
export const flag: Shape<0 | 1> = scalar('0 or 1', (value) => value === 0 || value === 1);
/** A part of the document that only informs: anything goes. */
export const anything: Shape<unknown> = scalar('anything', (value) => value !== undefined);

/** Exactly one of the given values. */
export function literal<const T extends readonly unknown[]>(...values: T): Shape<T[number]> {
  return scalar(values.map((value) => JSON.stringify(value)).join(' or '), (value) => values.includes(value));
}

/** null, or the shape. */
export function nullable<T>(shape: Shape<T>): Shape<T | null> {
  return {
    check(value, path, problems) {
      if (value !== null) shape.check(value, path, problems);
    },
  };
}

/** An array of any length. */
export function list<T>(item: Shape<T>): Shape<T[]> {
  return {
    check(value, path, problems) {
      if (!Array.isArray(value)) return malformed(problems, path, 'an array', value);
      value.forEach((element, i) => {
        item.check(element, `${path}[${i}]`, problems);
      });
    },
  };
}

/** An array of fixed length. */
export function tuple<const S extends readonly Shape<unknown>[]>(...items: S): Shape<TypesOf<S>> {
  return {
    check(value, path, problems) {
      if (!Array.isArray(value) || value.length !== items.length) {
        return malformed(problems, path, `an array of ${items.length}`, value);
      }
      items.forEach((item, i) => {
        item.check(value[i], `${path}[${i}]`, problems);
      });
    },
  };
}

/** An array whose first element is `head` and whose others are all `rest`. */
export function headed<H, R>(head: Shape<H>, rest: Shape<R>): Shape<[H, ...R[]]> {
  return {
    check(value, path, problems) {
      if (!Array.isArray(value) || value.length === 0) {
        return malformed(problems, path, 'an array with a head', value);
      }
      value.forEach((element, i) => {
        (i === 0 ? head : rest).check(element, `${path}[${i}]`, problems);
      });
    },
  };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A property of the object itself: keys come from documents, and may well be called "constructor". */
function own<T>(table: Record<string, T>, key: string): T | undefined {
  return Object.hasOwn(table, key) ? table[key] : undefined;
}

/** An object with any keys, all of whose values have one shape. */
export function record<T>(item: Shape<T>): Shape<Record<string, T>> {
  return {
    check(value, path, problems) {
      if (!isObject(value)) return malformed(problems, path, 'an object', value);
      for (const key of Object.keys(value)) item.check(value[key], `${path}.${key}`, problems);
    },
  };
}

/** The type that object() describes: every required field, and any of the optional ones. */
export type ObjectOf<R extends Fields, O extends Fields> = { [K in keyof R]: TypeOf<R[K]> } & {
  [K in keyof O]?: TypeOf<O[K]>;
};

/** An object with exactly these fields. */
export function object<R extends Fields, O extends Fields = Record<never, never>>(
  required: R,
  optional: O = {} as O,
): Shape<ObjectOf<R, O>> {
  return {
    check(value, path, problems) {
      if (!isObject(value)) return malformed(problems, path, 'an object', value);
      const at = (key: string) => (path === '' ? key : `${path}.${key}`);
      for (const key of Object.keys(value)) {
        const shape = own(required, key) ?? own(optional, key);
        if (shape) shape.check(value[key], at(key), problems);
        else
          problems.push({
            path: at(key),
            kind: 'unknown field',
            detail: 'the runner does not know this field',
          });
      }
      for (const key of Object.keys(required)) {
        if (!Object.hasOwn(value, key)) malformed(problems, at(key), 'a field', undefined);
      }
    },
  };
}

/** One of several shapes, told apart by `select`; undefined from it means that none fits. */
export function choice<T>(wanted: string, select: (value: unknown) => Shape<T> | undefined): Shape<T> {
  return {
    check(value, path, problems) {
      const shape = select(value);
      if (shape) shape.check(value, path, problems);
      else malformed(problems, path, wanted, value);
    },
  };
}

/** One of several tuples, told apart by the string that they begin with. */
export function tuples<const S extends Record<string, Shape<unknown>>>(shapes: S): Shape<TypeOf<S[keyof S]>> {
  const wanted = `an array that begins with ${Object.keys(shapes).join(', ')}`;
  return choice(wanted, (value) =>
    Array.isArray(value) && typeof value[0] === 'string'
      ? (own(shapes, value[0]) as Shape<TypeOf<S[keyof S]>> | undefined)
      : undefined,
  );
}

/** One of several objects, told apart by the string in their field `key`. */
export function tagged<const S extends Record<string, Shape<unknown>>>(
  key: string,
  shapes: S,
): Shape<TypeOf<S[keyof S]>> {
  const wanted = `an object with ${key} = ${Object.keys(shapes).join(', ')}`;
  return choice(wanted, (value) =>
    isObject(value) && typeof value[key] === 'string'
      ? (own(shapes, value[key]) as Shape<TypeOf<S[keyof S]>> | undefined)
      : undefined,
  );
}
