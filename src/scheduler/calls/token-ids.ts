// Parses token ids from callers.
import { types } from 'node:util';
import { parseInt32Array } from '../../base/arrays.js';
import { badArgument, show } from '../../base/errors.js';
import { TOKEN_MAX } from '../../core/core.js';

const typedArray = Object.getPrototypeOf(Int32Array.prototype) as object;
/**
 * The number of ids for which memory is allocated at first, because an object may claim a length
 * beyond any memory.
 */
const ROOM = 2 ** 16;

/**
 * Parses token ids from any array-like of integers. For an Int32Array the result is a view of it;
 * its ids are checked later, by the code that copies them. Anything else gives a checked copy, each
 * element read once.
 * @throws ERR_BLOCKSTEP_BAD_ARG, naming the first element that is not a token id; the error of a
 * getter
 */
export function parseTokenIds(name: string, value: unknown): Int32Array {
  return types.isInt32Array(value) ? parseInt32Array(name, value) : copyTokenIds(name, value);
}

function copyTokenIds(name: string, value: unknown): Int32Array {
  const list = checkArrayLike(name, value);
  const { length } = list;
  if (!Number.isSafeInteger(length) || length < 0) throw notIds(name, value);
  let ids = new Int32Array(Math.min(length, ROOM));
  for (let i = 0; i < length; i++) {
    const id = list[i];
    // The name is built only for an element that is not a token id.
    if (!isTokenId(id)) throw notAnId(`${name}[${i}]`, id);
    if (i === ids.length) ids = grown(ids, length);
    ids[i] = id;
  }
  return ids;
}

function checkArrayLike(name: string, value: unknown): ArrayLike<unknown> {
  if (typeof value !== 'object' || value === null) throw notIds(name, value);
  // An object that only inherits from a typed array, such as a proxy of one, throws when its length is read.
  const inherits = Object.prototype.isPrototypeOf.call(typedArray, value);
  if (inherits && !types.isTypedArray(value)) throw notIds(name, value);
  return value as ArrayLike<unknown>;
}

function isTokenId(id: unknown): id is number {
  return typeof id === 'number' && (id | 0) === id && id >= 0 && id <= TOKEN_MAX;
}

function notAnId(name: string, id: unknown): Error {
  return badArgument(name, show(id), `an integer from 0 to ${TOKEN_MAX}`);
}

function notIds(name: string, value: unknown): Error {
  return badArgument(name, show(value), 'an array of token ids');
}

function grown(ids: Int32Array, length: number): Int32Array<ArrayBuffer> {
  const more = new Int32Array(Math.min(length, 2 * ids.length));
  more.set(ids);
  return more;
}
