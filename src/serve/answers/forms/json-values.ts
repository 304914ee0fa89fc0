import { isObject } from '../../../base/checks.js';
import type { ReadCall } from './call-form.js';

/**
 * The arguments of a call as JSON; null if the value is not an object.
 * @param value an object, or an object as a JSON string; undefined or null means no arguments
 */
export function argumentsOf(value: unknown): string | null {
  let read = value;
  if (typeof value === 'string') {
    const text = value.trim();
    read = text === '' ? {} : parsed(text);
  }
  if (read === undefined || read === null) return '{}';
  return isObject(read) ? JSON.stringify(read) : null;
}

/** Parses a text as JSON; an empty string if the text is not JSON. */
function parsed(text: string): unknown {
  try {
    return parseJson(text) ?? {};
  } catch {
    // A string is not an object, so callers reject it.
    return '';
  }
}

/**
 * A call in JSON, under any of the key names that model families use; null if the value is not a
 * call.
 */
function callOf(value: unknown): ReadCall | null {
  if (!isObject(value)) return null;
  const inner = value['function'];
  if (isObject(inner)) return callOf(inner);
  const name = value['name'] ?? value['tool_name'] ?? inner;
  if (typeof name !== 'string' || name === '') return null;
  const args = argumentsOf(value['arguments'] ?? value['parameters']);
  return args === null ? null : { name, arguments: args };
}

/**
 * The calls in a JSON value: one call, a list of calls, or an object that holds such a list. Null
 * if there are none.
 */
function callsOf(value: unknown): readonly ReadCall[] | null {
  const list: unknown = isObject(value) && Array.isArray(value['tool_calls']) ? value['tool_calls'] : value;
  const calls = (Array.isArray(list) ? list : [list]).map(callOf);
  return calls.length === 0 || calls.includes(null) ? null : (calls as ReadCall[]);
}

/** The maximum number of calls in one text. */
export const MOST_CALLS = 1024;
/**
 * The maximum number of values in a call, and their maximum nesting depth. Answers are parsed on
 * the event loop, where larger calls would take too long.
 */
export const MOST_VALUES = 2 ** 14;
export const MOST_NESTING = 100;

/**
 * The index after the object or list that begins at `from`; -1 if it does not end or is too large.
 * The time is linear.
 */
export function jsonEnd(text: string, from: number): number {
  let depth = 0;
  let values = 0;
  let isString = false;
  for (let i = from; i < text.length; i++) {
    const letter = text[i];
    if (isString) {
      if (letter === '\\') i++;
      else if (letter === '"') isString = false;
    } else if (letter === '"') isString = true;
    else if (letter === ',') values++;
    else if (letter === '{' || letter === '[') {
      values++;
      depth++;
    } else if (letter === '}' || letter === ']') {
      depth--;
      if (depth === 0) return i + 1;
    }
    if (values > MOST_VALUES || depth > MOST_NESTING) return -1;
  }
  return -1;
}

/** Parses a JSON value. @throws SyntaxError if the text is not JSON, or is too large */
export function parseJson(text: string): unknown {
  const plain = text.trim();
  const isNested = plain.startsWith('{') || plain.startsWith('[');
  if (isNested && jsonEnd(plain, 0) !== plain.length)
    throw new SyntaxError('expected one value, and no large one');
  return JSON.parse(plain);
}

const BETWEEN = /[ \n\r\t,;]*/y;

/**
 * Consecutive objects and lists, which white space, commas and semicolons may separate; null if the
 * text has anything else.
 */
function jsonValues(text: string): readonly unknown[] | null {
  const values: unknown[] = [];
  for (let from = 0; ; ) {
    BETWEEN.lastIndex = from;
    BETWEEN.exec(text);
    from = BETWEEN.lastIndex;
    if (from === text.length) return values.length === 0 ? null : values;
    const end = text[from] === '{' || text[from] === '[' ? jsonEnd(text, from) : -1;
    if (end < 0 || values.length === MOST_CALLS) return null;
    values.push(JSON.parse(text.slice(from, end)));
    from = end;
  }
}

/** The calls in such values; null if one of the values is not a call. */
export function jsonCalls(text: string): readonly ReadCall[] | null {
  const calls: ReadCall[] = [];
  for (const value of jsonValues(text) ?? [null]) {
    const each = callsOf(value);
    if (each === null) return null;
    calls.push(...each);
  }
  return calls;
}
