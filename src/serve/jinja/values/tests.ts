import { binary, contains } from './operators.js';
import type { Run } from './run.js';
import { TemplateError } from './template-error.js';
import { Callable, equal, isFloat, numberOf, Undefined, type Value } from './values.js';

/** A test, as in `value is test`. */
export type Test = (value: Value, args: readonly Value[], run: Run) => boolean;

const isInt = (value: Value): boolean => typeof value === 'number' && Number.isInteger(value);
const isText = (value: Value): boolean => typeof value === 'string';
const compared =
  (operator: string): Test =>
  (value, [other], run) =>
    binary(operator, value, other, run) === true;

function whole(value: Value): number {
  const number = numberOf(value);
  if (number === null || !Number.isInteger(number)) throw new TemplateError('an integer is required');
  return number;
}

/** The tests by their names. */
export const TESTS: Readonly<Record<string, Test>> = {
  defined: (value) => !(value instanceof Undefined),
  undefined: (value) => value instanceof Undefined,
  none: (value) => value === null,
  boolean: (value) => typeof value === 'boolean',
  true: (value) => value === true,
  false: (value) => value === false,
  string: isText,
  number: (value) => numberOf(value) !== null,
  integer: isInt,
  float: isFloat,
  mapping: (value) => value instanceof Map,
  iterable: (value) =>
    isText(value) || Array.isArray(value) || value instanceof Map || value instanceof Undefined,
  sequence: (value) => isText(value) || Array.isArray(value) || value instanceof Map,
  callable: (value) => value instanceof Callable,
  odd: (value) => Math.abs(whole(value) % 2) === 1,
  even: (value) => whole(value) % 2 === 0,
  divisibleby: (value, [by]) => whole(value) % whole(by) === 0,
  lower: (value) => isText(value) && value === (value as string).toLowerCase(),
  upper: (value) => isText(value) && value === (value as string).toUpperCase(),
  in: (value, [within], run) => contains(value, within, run),
  sameas: (value, [other]) => value === other || equal(value, other),
  equalto: compared('=='),
  eq: compared('=='),
  '==': compared('=='),
  ne: compared('!='),
  '!=': compared('!='),
  lt: compared('<'),
  lessthan: compared('<'),
  '<': compared('<'),
  le: compared('<='),
  '<=': compared('<='),
  gt: compared('>'),
  greaterthan: compared('>'),
  '>': compared('>'),
  ge: compared('>='),
  '>=': compared('>='),
};
