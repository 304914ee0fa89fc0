import { types } from 'node:util';
import { badArgument, show } from './errors.js';

// The language's own getters. A property that a caller put on an array, or on its prototype, is never read.
const typedArray = Object.getPrototypeOf(Int32Array.prototype) as object;
const bufferOf = getter<ArrayBufferLike>(typedArray, 'buffer');
const byteOffsetOf = getter<number>(typedArray, 'byteOffset');
const lengthOf = getter<number>(typedArray, 'length');
const isResizable = getter<boolean>(ArrayBuffer.prototype, 'resizable');

/**
 * A view of a caller's Int32Array. The array may be of another realm. Its memory must not be detached, resizable or shared with
 * another thread. The view is a new object: no property of the caller's array is ever read, and the view's length and methods
 * are the language's own.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function takeInt32Array(name: string, value: unknown): Int32Array {
  if (!types.isInt32Array(value)) throw badArgument(name, show(value), 'an Int32Array');
  checkMemory(name, value);
  return new Int32Array(bufferOf(value), byteOffsetOf(value), lengthOf(value));
}

/**
 * As `takeInt32Array`, for bytes.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function takeUint8Array(name: string, value: unknown): Uint8Array {
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

/** Whether a buffer is detached: no view of it can be made then. Node 20 has no getter that says so. */
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

/** The elements of both, in a new array. */
export function joined(a: Int32Array, b: Int32Array): Int32Array {
  const all = new Int32Array(a.length + b.length);
  all.set(a);
  all.set(b, a.length);
  return all;
}
