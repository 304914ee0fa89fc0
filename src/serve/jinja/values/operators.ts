import { braceFormat, percentFormat } from './format.js';
import { Loop } from './loop.js';
import { methodOf } from './methods.js';
import type { Run } from './run.js';
import { TemplateError } from './template-error.js';
import {
  Callable,
  characters,
  compare,
  equal,
  float,
  isFloat,
  Namespace,
  numberOf,
  str,
  Tuple,
  typeName,
  Undefined,
  type Value,
} from './values.js';

/** Applies an operator to two values. @throws TemplateError where Python raises an error */
export function binary(operator: string, a: Value, b: Value, run: Run): Value {
  for (const each of [a, b])
    if (each instanceof Undefined && operator !== '==' && operator !== '!=')
      throw new TemplateError(each.why);
  if (operator === '==') return equal(a, b);
  if (operator === '!=') return !equal(a, b);
  if (operator === '<') return compare(a, b) < 0;
  if (operator === '>') return compare(a, b) > 0;
  if (operator === '<=') return compare(a, b) <= 0;
  if (operator === '>=') return compare(a, b) >= 0;
  if (operator === '%' && typeof a === 'string') return percentFormat(a, b);
  const [left, right] = [numberOf(a), numberOf(b)];
  if (left !== null && right !== null) return arithmetic(operator, left, right, isFloat(a) || isFloat(b));
  if (operator === '+' && typeof a === 'string' && typeof b === 'string') return joined(a, b, run);
  if (operator === '+' && Array.isArray(a) && Array.isArray(b) && typeName(a) === typeName(b)) {
    run.step(500 * (a.length + b.length));
    return a.concat(b);
  }
  if (operator === '*' && right !== null) return repeated(a, right, run);
  if (operator === '*' && left !== null) return repeated(b, left, run);
  throw new TemplateError(`unsupported operand types for ${operator}: '${typeName(a)}' and '${typeName(b)}'`);
}

/** Concatenates two texts. */
export function joined(a: string, b: string, run: Run): string {
  run.fits(a.length + b.length, 0);
  return a + b;
}

function repeated(value: Value, times: number, run: Run): Value {
  const count = Math.max(0, Math.trunc(times));
  if (typeof value === 'string') {
    run.fits(value.length * count);
    return value.repeat(count);
  }
  if (!Array.isArray(value))
    throw new TemplateError(`unsupported operand types for *: '${typeName(value)}' and 'int'`);
  run.fits(1000 * value.length * count, value.length * count);
  return Array.from({ length: count }).flatMap(() => value);
}

function arithmetic(operator: string, a: number, b: number, wantsFloat: boolean): Value {
  const made = (value: number): Value => (wantsFloat ? float(value) : value);
  if (b === 0 && (operator === '/' || operator === '//' || operator === '%'))
    throw new TemplateError('division by zero');
  switch (operator) {
    case '+':
      return made(a + b);
    case '-':
      return made(a - b);
    case '*':
      return made(a * b);
    case '/':
      return float(a / b);
    case '//':
      return made(Math.floor(a / b));
    case '%':
      return made(((a % b) + b) % b);
    default:
      return b < 0 ? float(a ** b) : made(a ** b);
  }
}

/** Whether a value contains another. */
export function contains(item: Value, within: Value, run: Run): boolean {
  if (typeof within === 'string') {
    run.step(within.length);
    if (typeof item !== 'string')
      throw new TemplateError(`'in <string>' requires string, got '${typeName(item)}'`);
    return within.includes(item);
  }
  if (Array.isArray(within)) {
    run.step(1000 * within.length);
    return within.some((each) => equal(each, item));
  }
  if (within instanceof Map) return within.has(item);
  // An undefined value has no items.
  if (within instanceof Undefined) return false;
  if (within instanceof Namespace) return within.fields.has(item);
  throw new TemplateError(`argument of type '${typeName(within)}' is not iterable`);
}

/** `value.name` */
export function attribute(value: Value, name: string, run: Run): Value {
  if (value instanceof Undefined) throw new TemplateError(value.why);
  if (value instanceof Loop) return there(value.attribute(name), 'loop', name);
  if (value instanceof Namespace) return there(value.fields.get(name), 'Namespace', name);
  if (typeof value === 'string' && name === 'format')
    return new Callable(name, (args, named) => {
      const made = braceFormat(value, args, named, (of, key) => attribute(of, key, run));
      run.fits(made.length);
      return made;
    });
  const method = methodOf(value, name, run);
  if (method !== undefined) return new Callable(name, method);
  return there(value instanceof Map ? value.get(name) : undefined, typeName(value), name);
}

/** `value[key]` */
export function item(value: Value, key: Value, run: Run): Value {
  if (value instanceof Undefined) throw new TemplateError(value.why);
  if (value instanceof Map && value.has(key)) return value.get(key);
  const index = numberOf(key);
  if (index !== null && (Array.isArray(value) || typeof value === 'string')) {
    const all = typeof value === 'string' ? characters(value) : value;
    return there(all[index < 0 ? all.length + index : index], typeName(value), str(key));
  }
  return typeof key === 'string' ? attribute(value, key, run) : there(undefined, typeName(value), str(key));
}

/** The value, or an `Undefined` if it is absent. None counts as present. */
function there(value: Value, type: string, name: string): Value {
  return value === undefined ? new Undefined(`'${type} object' has no attribute '${name}'`) : value;
}

/** `value[from:to:step]`; null if a bound is absent. */
export function slice(value: Value, [from, to, by]: readonly (number | null)[], run: Run): Value {
  if (value instanceof Undefined) throw new TemplateError(value.why);
  const all = typeof value === 'string' ? characters(value) : value;
  if (typeof all !== 'string' && !Array.isArray(all))
    throw new TemplateError(`'${typeName(value)}' object is not subscriptable`);
  const { length } = all;
  run.step(length);
  const step = by ?? 1;
  if (step === 0) throw new TemplateError('slice step cannot be zero');
  const place = (at: number | null, otherwise: number): number => {
    if (at === null) return otherwise;
    const least = step > 0 ? 0 : -1;
    return Math.max(least, Math.min(at < 0 ? at + length : at, step > 0 ? length : length - 1));
  };
  const start = place(from, step > 0 ? 0 : length - 1);
  const end = place(to, step > 0 ? length : -1);
  if (typeof all === 'string' && step === 1) return all.slice(start, end);
  const items: Value[] = [];
  for (let i = start; step > 0 ? i < end : i > end; i += step) items.push(all[i]);
  if (typeof value === 'string') return items.join('');
  return value instanceof Tuple ? Tuple.of(...items) : items;
}
