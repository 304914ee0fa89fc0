import { isAscii, isUtf8 } from 'node:buffer';
import { StringDecoder } from 'node:string_decoder';
import { setImmediate as turn } from 'node:timers/promises';
import { ApiError } from '../api/api-error.js';

/** Bodies up to this number of bytes are parsed without being checked first. */
const SMALL = 2 ** 11;
/**
 * The maximum number of list items, and the maximum number of objects, lists and fields together.
 * Parsing more would hold up all other requests.
 */
const MOST_VALUES = 2 ** 18;
const MOST_FIELDS = 2 ** 16;
/**
 * The maximum nesting depth of objects and lists. Deeper nesting overflows the stack of code that
 * walks the values.
 */
const MOST_NESTING = 1000;

/** The number of bytes that are decoded to text in one go. */
const PIECE = 2 ** 20;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const BRACKET = 0x5b;
const BRACE = 0x7b;
const BRACKET_END = 0x5d;
const BRACE_END = 0x7d;

/**
 * Parses the body of a request. Nothing of a body is ever assigned to an object, so fields named
 * `__proto__` are plain fields here. They are refused by name where names are known. A long body
 * with non-ASCII text is decoded in pieces, one per turn of the event loop: V8 takes 5 ms for a
 * megabyte.
 * @throws ApiError by rejection, for a body that is not JSON in UTF-8, or that has more values than
 * a request could need
 */
export async function readJson(bytes: Buffer): Promise<unknown> {
  if (bytes.length === 0) throw bad('the body is empty, expected JSON');
  if (!isUtf8(bytes)) throw bad('the body is no valid UTF-8, as JSON must be');
  if (bytes.length > SMALL) checkSize(bytes);
  const text = isAscii(bytes) ? bytes.toString('latin1') : await textOf(bytes);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw bad(`the body is no JSON: ${(error as Error).message.slice(0, 200)}`);
  }
}

async function textOf(bytes: Buffer): Promise<string> {
  if (bytes.length <= PIECE) return bytes.toString('utf8');
  const decoder = new StringDecoder('utf8');
  let text = '';
  for (let from = 0; from < bytes.length; from += PIECE) {
    if (from > 0) await turn();
    text += decoder.write(bytes.subarray(from, from + PIECE));
  }
  return text + decoder.end();
}

/** Counts the values outside of strings. The parser decides whether the body is valid JSON. */
function checkSize(bytes: Buffer): void {
  let values = 0;
  let fields = 0;
  let nesting = 0;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i];
    if (byte === QUOTE) {
      i = endOfString(bytes, i);
      if (i < 0) return;
    } else if (byte === COMMA) values++;
    else if (byte === COLON) fields++;
    else if (byte === BRACKET || byte === BRACE) {
      fields++;
      nesting++;
    } else if (byte === BRACKET_END || byte === BRACE_END) nesting--;
    if (values > MOST_VALUES) throw bad(`the body has more than ${MOST_VALUES} values`);
    if (fields > MOST_FIELDS) throw bad(`the body has more than ${MOST_FIELDS} objects, lists and fields`);
    if (nesting > MOST_NESTING)
      throw bad(`the body has more than ${MOST_NESTING} objects and lists within each other`);
  }
}

/** The index where the string that begins at `start` ends; negative if it does not end. */
function endOfString(bytes: Buffer, start: number): number {
  for (let i = start + 1; ; i++) {
    i = bytes.indexOf(QUOTE, i);
    if (i < 0) return i;
    let slashes = 0;
    while (bytes[i - 1 - slashes] === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return i;
  }
}

function bad(message: string): ApiError {
  return new ApiError(400, message, { code: 'invalid_json' });
}
