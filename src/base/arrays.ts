// Checks typed arrays of callers, and makes views without the properties that a caller added.
import { types } from 'node:util';
import { badArgument, show } from './errors.js';

// The language's own getters, taken once: properties that callers put on arrays or on their
// prototypes have no effect.
const typedArray = Object.getPrototypeOf(Int32Array.prototype) as object;
const bufferOf = getter<ArrayBufferLike>(typedArray, 'buffer');
const byteOffsetOf = getter<number>(typedArray, 'byteOffset');
const lengthOf = getter<number>(typedArray, 'length');
const isResizable = getter<boolean>(ArrayBuffer.prototype, 'resizable');

/**
 * Checks an Int32Array of a caller, and returns a new view of the same memory.
 *
 * The array may be of another realm. Its memory must be attached, of fixed size, and not shared
 * with another thread. No property of the caller's array is ever read, so the length and the
 * methods of the view are the language's own.
 * @param name the argument's name, for the message
 * @throws ERR_BLOCKSTEP_BAD_ARG if the value is no Int32Array, or if its memory is shared,
 * resizable or detached
 */
export function parseInt32Array(name: string, value: unknown): Int32Array {
  if (!types.isInt32Array(value)) throw badArgument(name, show(value), 'an Int32Array');
  checkMemory(name, value);
  return new Int32Array(bufferOf(value), byteOffsetOf(value), lengthOf(value));
}

/**
 * Like `parseInt32Array`, for a Uint8Array.
 * @throws ERR_BLOCKSTEP_BAD_ARG if the value is no Uint8Array, or if its memory is shared,
 * resizable or detached
 */
export function parseUint8Array(name: string, value: unknown): Uint8Array {
  if (!types.isUint8Array(value)) throw badArgument(name, show(value), 'a Uint8Array');
  checkMemory(name, value);
  return new Uint8Array(bufferOf(value), byteOffsetOf(value), lengthOf(value));
}

function checkMemory(name: string, array: ArrayBufferView): void {
  const buffer = bufferOf(array);
  if (types.isSharedArrayBuffer(buffer))
    throw badArgument(name, 'one over a SharedArrayBuffer', 'over memory of its own');
  if (isResizable(buffer))
    throw badArgument(name, 'one over a resizable buffer', 'over memory of fixed size');
  if (lengthOf(array) === 0 && isDetached(buffer))
    throw badArgument(name, 'one whose memory was given away', 'over memory of its own');
}

/**
 * Whether a buffer is detached. No view of a detached buffer can be made. Node 20 has no getter for
 * this.
 */
function isDetached(buffer: ArrayBufferLike): boolean {
  try {
    void new Uint8Array(buffer);
    return false;
  } catch {
    return true;
  }
}

function getter<T>(owner: object, property: string): (receiver: unknown) => T {
  const get = Object.getOwnPropertyDescriptor(owner, property)?.get as () => T;
  return Function.prototype.call.bind(get) as (receiver: unknown) => T;
}

/** A new array with the elements of `a`, then of `b`. */
export function joined(a: Int32Array, b: Int32Array): Int32Array {
  const all = new Int32Array(a.length + b.length);
  all.set(a);
  all.set(b, a.length);
  return all;
}
