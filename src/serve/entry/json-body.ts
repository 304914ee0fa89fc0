// Reads bodies, and refuses bodies that would take long to read.
import { isAscii, isUtf8 } from 'node:buffer';
import { StringDecoder } from 'node:string_decoder';
import { setImmediate as turn } from 'node:timers/promises';
import { ApiError } from '../api/api-error.js';

/** Bodies up to so many bytes are read as they are. */
const SMALL = 2 ** 11;
/** Most values in lists, and most objects, lists and fields: what takes longer to read than so many holds up everybody. */
const MOST_VALUES = 2 ** 18;
const MOST_FIELDS = 2 ** 16;
/** Most objects and lists within each other: what is nested deeper ends the stack of whoever goes through it. */
const MOST_NESTING = 1000;

/** Bytes that become text at once. */
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
 * Reads the body of a request. Fields named `__proto__` are fields as any other here, so that they are refused by name where names are known:
 * nothing of a body is ever assigned to an object.
 * A long body of other letters than ASCII's becomes text in pieces, a turn of the event loop each: V8 takes 5 ms for a megabyte.
 * @throws by rejection ApiError for what is no JSON in UTF-8, and for what has more values than a request could need
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

/** Counts what stands outside of strings. Whether all that is JSON, the parser says. */
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

/** Where the string ends that begins at `start`; below 0: it does not. */
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
