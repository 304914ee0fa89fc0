import { isObject } from '../../../base/checks.js';
import type { ReadCall } from './call-form.js';

/** The arguments of a call as JSON; null: they are none. @param value an object, or one as JSON in a string; nothing is none at all */
export function argumentsOf(value: unknown): string | null {
  let read = value;
  if (typeof value === 'string') {
    const text = value.trim();
    read = text === '' ? {} : parsed(text);
  }
  if (read === undefined || read === null) return '{}';
  return isObject(read) ? JSON.stringify(read) : null;
}

/** Text as JSON; an empty text: it is none. */
function parsed(text: string): unknown {
  try {
    return parseJson(text) ?? {};
  } catch {
    // A text is no object.
    return '';
  }
}

/** A call in JSON, under the names that families of models have for its parts; null: it is none. */
function callOf(value: unknown): ReadCall | null {
  if (!isObject(value)) return null;
  const inner = value['function'];
  if (isObject(inner)) return callOf(inner);
  const name = value['name'] ?? value['tool_name'] ?? inner;
  if (typeof name !== 'string' || name === '') return null;
  const args = argumentsOf(value['arguments'] ?? value['parameters']);
  return args === null ? null : { name, arguments: args };
}

/** The calls that one value of JSON is: a call, a list of calls, or an object that has such a list; null: none. */
function callsOf(value: unknown): readonly ReadCall[] | null {
  const list: unknown = isObject(value) && Array.isArray(value['tool_calls']) ? value['tool_calls'] : value;
  const calls = (Array.isArray(list) ? list : [list]).map(callOf);
  return calls.length === 0 || calls.includes(null) ? null : (calls as ReadCall[]);
}

/** Most calls that stand together. */
export const MOST_CALLS = 1024;
/** Most values of a call, and most of them within each other. More take too long to read on the event loop, where answers are read. */
export const MOST_VALUES = 2 ** 14;
export const MOST_NESTING = 100;

/** The index behind the object or list that begins at `from`; -1: it does not end, or is too large. Its time is linear. */
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

/** A value in JSON. @throws SyntaxError for what is none, or too large */
export function parseJson(text: string): unknown {
  const plain = text.trim();
  const isNested = plain.startsWith('{') || plain.startsWith('[');
  if (isNested && jsonEnd(plain, 0) !== plain.length)
    throw new SyntaxError('expected one value, and no large one');
  return JSON.parse(plain);
}

const BETWEEN = /[ \n\r\t,;]*/y;

/** Objects and lists that stand one behind another, between which white space, commas and semicolons may be; null: something else is there. */
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

/** The calls that such values are; null: one of them is none. */
export function jsonCalls(text: string): readonly ReadCall[] | null {
  const calls: ReadCall[] = [];
  for (const value of jsonValues(text) ?? [null]) {
    const each = callsOf(value);
    if (each === null) return null;
    calls.push(...each);
  }
  return calls;
}
