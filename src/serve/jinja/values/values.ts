import { TemplateError } from './template-error.js';

/**
 * A template value, with Python's semantics. Null is None, and an array is a list. A number is an
 * `int`, or a `float` that is not whole. A Map is a dict. Other types have classes of their own.
 */
export type Value = unknown;

/** A float whose value is whole. It is printed with its decimal point. */
export class Float {
  readonly value: number;

  constructor(value: number) {
    this.value = value;
  }
}

/** A tuple. */
export class Tuple extends Array<Value> {}

/** The value of a name or an attribute that does not exist. */
export class Undefined {
  /** The reason, for the error message when the value is used. */
  readonly why: string;

  constructor(why: string) {
    this.why = why;
  }
}

/** The result of `namespace()`. Its attributes may be set within a loop. */
export class Namespace {
  readonly fields: Map<Value, Value>;

  constructor(fields: Map<Value, Value>) {
    this.fields = fields;
  }
}

/** A function, a macro or a method. Named arguments are passed by name. */
export class Callable {
  readonly name: string;
  readonly call: (args: readonly Value[], named: ReadonlyMap<string, Value>) => Value;

  constructor(name: string, call: Callable['call']) {
    this.name = name;
    this.call = call;
  }
}

/** The value as a JavaScript number; null if it is not a number. */
export function numberOf(value: Value): number | null {
  if (typeof value === 'number') return value;
  if (value instanceof Float) return value.value;
  return typeof value === 'boolean' ? Number(value) : null;
}

/** A float of this value. */
export function float(value: number): Value {
  return Number.isInteger(value) ? new Float(value) : value;
}

/** Whether a value is a float. */
export function isFloat(value: Value): boolean {
  return value instanceof Float || (typeof value === 'number' && !Number.isInteger(value));
}

/** Whether a value counts as true. */
export function truth(value: Value): boolean {
  if (value === null || value instanceof Undefined) return false;
  if (value instanceof Float) return value.value !== 0;
  if (Array.isArray(value)) return value.length > 0;
  if (value instanceof Map) return value.size > 0;
  return typeof value === 'object' || Boolean(value);
}

/** The name of a value's type. */
export function typeName(value: Value): string {
  if (value === null) return 'NoneType';
  if (typeof value === 'string') return 'str';
  if (typeof value === 'boolean') return 'bool';
  if (isFloat(value)) return 'float';
  if (typeof value === 'number') return 'int';
  if (value instanceof Tuple) return 'tuple';
  if (Array.isArray(value)) return 'list';
  if (value instanceof Map) return 'dict';
  if (value instanceof Undefined) return 'Undefined';
  return value instanceof Callable ? 'function' : 'Namespace';
}

/** The characters of a text, counted as Python does. */
export function characters(text: string): readonly string[] | string {
  return /[\ud800-\udfff]/.test(text) ? Array.from(text) : text;
}

/** The items of a value. @throws TemplateError if it has none */
export function itemsOf(value: Value): readonly Value[] {
  if (Array.isArray(value)) return value;
  if (typeof value === 'string') return Array.from(value);
  if (value instanceof Map) return [...value.keys()];
  if (value instanceof Undefined) return [];
  throw new TemplateError(`'${typeName(value)}' object is not iterable`);
}

/** The maximum nesting depth of values; deeper values are refused. */
const MOST_NESTING = 200;

/** Whether two values are equal. */
export function equal(a: Value, b: Value, depth = 0): boolean {
  if (a === b) return true;
  if (depth > MOST_NESTING) throw new TemplateError('values are nested too deep');
  const [left, right] = [numberOf(a), numberOf(b)];
  if (left !== null && right !== null) return left === right;
  if (Array.isArray(a) && Array.isArray(b))
    return (
      a.length === b.length &&
      a instanceof Tuple === b instanceof Tuple &&
      a.every((each, i) => equal(each, b[i], depth + 1))
    );
  if (a instanceof Map && b instanceof Map)
    return (
      a.size === b.size && [...a].every(([key, each]) => b.has(key) && equal(each, b.get(key), depth + 1))
    );
  return a instanceof Undefined && b instanceof Undefined;
}

/**
 * The order of two values: negative, 0 or positive. @throws TemplateError if they cannot be
 * compared
 */
export function compare(a: Value, b: Value): number {
  const [left, right] = [numberOf(a), numberOf(b)];
  if (left !== null && right !== null) return left - right;
  if (typeof a === 'string' && typeof b === 'string') return a < b ? -1 : Number(a > b);
  if (Array.isArray(a) && Array.isArray(b)) {
    for (let i = 0; i < Math.min(a.length, b.length); i++) if (!equal(a[i], b[i])) return compare(a[i], b[i]);
    return a.length - b.length;
  }
  throw new TemplateError(`'${typeName(a)}' and '${typeName(b)}' cannot be compared`);
}

/** A value as text, as Python's `str` writes it. */
export function str(value: Value): string {
  if (typeof value === 'string') return value;
  return value instanceof Undefined ? '' : repr(value);
}

/** A value as Python's `repr` writes it. */
export function repr(value: Value, depth = 0): string {
  if (depth > MOST_NESTING) throw new TemplateError('values are nested too deep');
  if (typeof value === 'string') return quoted(value);
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (value instanceof Float) return floatText(value.value);
  if (typeof value === 'number') return Number.isInteger(value) ? BigInt(value).toString() : floatText(value);
  const inner = (each: Value): string => repr(each, depth + 1);
  if (value instanceof Tuple)
    return `(${Array.from(value, inner).join(', ')}${value.length === 1 ? ',' : ''})`;
  if (Array.isArray(value)) return `[${value.map(inner).join(', ')}]`;
  if (value instanceof Map)
    return `{${[...value].map(([key, each]) => `${inner(key)}: ${inner(each)}`).join(', ')}}`;
  if (value instanceof Undefined) return 'Undefined';
  return value instanceof Namespace ? `<Namespace ${inner(value.fields)}>` : `<${typeName(value)}>`;
}

function floatText(value: number): string {
  if (Number.isNaN(value)) return 'nan';
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf';
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e16 || size < 1e-4))
    return value.toExponential().replace(/e([+-])(\d)$/, 'e$10$2');
  return Number.isInteger(value) ? `${Object.is(value, -0) ? '-0' : value}.0` : String(value);
}

const NAMED: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t', '\\': '\\\\' };

function quoted(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const inside = text.replace(/[\\'\p{C}\p{Zl}\p{Zp}]/gu, (letter) => {
    if (letter === "'") return quote === "'" ? "\\'" : letter;
    if (NAMED[letter] !== undefined) return NAMED[letter];
    const code = letter.codePointAt(0) as number;
    if (code < 0x100) return `\\x${code.toString(16).padStart(2, '0')}`;
    return code < 0x10000
      ? `\\u${code.toString(16).padStart(4, '0')}`
      : `\\U${code.toString(16).padStart(8, '0')}`;
  });
  return quote + inside + quote;
}

/**
 * Converts a JavaScript value to a template value. @throws TemplateError if it is nested too deep
 */
export function fromJs(value: unknown, depth = 0): Value {
  if (depth > MOST_NESTING) throw new TemplateError('values are nested too deep');
  if (Array.isArray(value)) return value.map((each) => fromJs(each, depth + 1));
  if (value === undefined) return null;
  if (typeof value !== 'object' || value === null || value instanceof Callable) return value;
  return new Map(Object.entries(value).map(([key, each]) => [key, fromJs(each, depth + 1)]));
}

/** The pairs of a dict, as tuples. */
export function pairsOf(dict: ReadonlyMap<Value, Value>): Value[] {
  return Array.from(dict, ([key, value]) => Tuple.of(key, value));
}
