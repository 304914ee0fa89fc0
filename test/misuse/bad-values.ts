// Values that no argument may have.
import vm from 'node:vm';

/** The error of a hostile callback; it must arrive unchanged. */
export const MINE = new Error('mine');

export function hostile(): never {
  throw MINE;
}

export function raise(error: unknown): never {
  throw error;
}

/** A proxy that throws at whatever is asked of it. */
export function throwingProxy(target: object): object {
  return new Proxy(target, {
    get: hostile,
    has: hostile,
    ownKeys: hostile,
    getOwnPropertyDescriptor: hostile,
  });
}

const untouchable = () => ({ valueOf: hostile, toString: hostile, [Symbol.toPrimitive]: hostile });

/** Values of which no function takes any as a number. */
export const NO_NUMBERS: unknown[] = [
  null,
  true,
  '',
  '7',
  1n,
  2n ** 64n,
  Symbol('s'),
  {},
  [],
  [1],
  () => 1,
  untouchable(),
  throwingProxy({}),
  throwingProxy(() => 1),
  Int32Array.of(1),
  new Date(0),
  Object(1),
  Object.create(null),
];

export const NO_FINITE_NUMBERS: unknown[] = [
  ...NO_NUMBERS,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
];

/** Not integers, or beyond every limit. */
export const NO_INTEGERS: unknown[] = [
  ...NO_FINITE_NUMBERS,
  0.5,
  -0.5,
  1.0000000000000002,
  2 ** 53,
  -(2 ** 53),
  2 ** 53 + 2,
  1e308,
  5e-324,
];

/** Beyond every 32-bit limit too. */
export const NO_COUNTS: unknown[] = [
  ...NO_INTEGERS,
  -1,
  -(2 ** 31),
  2 ** 31,
  2 ** 32 - 1,
  2 ** 32,
  2 ** 32 + 1,
];

export const NO_STRINGS: unknown[] = [
  null,
  0,
  1,
  Number.NaN,
  true,
  1n,
  Symbol('s'),
  {},
  [],
  ['a'],
  () => 'a',
  untouchable(),
  throwingProxy({}),
  Object('a'),
];
export const TOO_LONG = 'x'.repeat(65_537);

export const NO_BOOLEANS: unknown[] = [
  null,
  0,
  1,
  'true',
  '',
  1n,
  {},
  [],
  Object(true),
  Symbol('s'),
  throwingProxy({}),
];

type BufferClass = new (bytes: number, options?: { maxByteLength?: number }) => ArrayBuffer;
const Resizable = ArrayBuffer as never as BufferClass;
const Shared = SharedArrayBuffer as never as BufferClass;

export function detach<T extends ArrayBufferView>(array: T): T {
  structuredClone(array.buffer, { transfer: [array.buffer as ArrayBuffer] });
  return array;
}

/** An array over a resizable buffer, which was shrunk to nothing after the array was made. */
function shrunk(): Int32Array {
  const buffer = new Resizable(16, { maxByteLength: 64 });
  const array = new Int32Array(buffer);
  (buffer as never as { resize(bytes: number): void }).resize(0);
  return array;
}

/**
 * Values that pass for an Int32Array and are none, or are over memory that is not plain and fixed.
 */
const NO_PLAIN_INT32_ARRAYS: (() => unknown)[] = [
  () => new Int32Array(new Shared(8)),
  () => new Int32Array(new Shared(8, { maxByteLength: 64 })),
  () => new Int32Array(new Resizable(8, { maxByteLength: 64 })),
  shrunk,
  () => Object.create(Int32Array.prototype),
  () => Object.create(Int32Array.of(1, 1, 1, 1)),
  () => ({ length: 4, 0: 1, 1: 1, 2: 1, 3: 1, __proto__: Int32Array.prototype }),
  () => new Proxy(Int32Array.of(1, 1, 1, 1), {}),
  () => transparentProxy(Int32Array.of(1, 1, 1, 1)),
];

/** Arrays and views of every type but Int32Array. */
export const OTHER_ARRAYS: (() => unknown)[] = [
  () => Float64Array.of(1),
  () => Float32Array.of(1),
  () => Int8Array.of(1),
  () => Int16Array.of(1),
  () => Uint8Array.of(1),
  () => Uint8ClampedArray.of(1),
  () => Uint32Array.of(1),
  () => BigInt64Array.of(1n),
  () => new DataView(new ArrayBuffer(8)),
  () => Buffer.alloc(8),
];

/** Values that are no Int32Array of plain, fixed memory. Functions, because some can be used only once. */
export const NO_INT32_ARRAYS: (() => unknown)[] = [
  ...[null, 1, true, 'x', 'x'.repeat(2000), 1n, Symbol('s'), {}, [], [1, 2], () => 1].map(
    (value) => () => value,
  ),
  () => new ArrayBuffer(8),
  ...OTHER_ARRAYS,
  () => new Uint8Array(new ArrayBuffer(9), 1, 8),
  ...NO_PLAIN_INT32_ARRAYS,
];

/** Values that are no array-like of token ids. */
export const NO_TOKEN_IDS: (() => unknown)[] = [
  ...[null, 1, true, 'x', 'x'.repeat(2000), 1n, Symbol('s'), {}, [], () => 1, new Set([1]), Object('12')].map(
    (value) => () => value,
  ),
  ...[
    [1.5],
    [1, Number.NaN],
    [-1],
    [2 ** 31 - 1],
    [2 ** 32 + 1],
    [1n],
    ['1'],
    [[1]],
    [1, null],
    [untouchable()],
  ].map((list) => () => list),
  () => Object.assign(new Array<number>(3), { 0: 1, 2: 3 }),
  ...[-1, 0.5, 2 ** 53, Number.NaN, '2', 2n, undefined].map((length) => () => ({ length, 0: 1, 1: 1 })),
  () => ({ length: 2 ** 40, 0: 1 }),
  () => ({ 0: 1, 1: 2 }),
  () => new ArrayBuffer(8),
  () => new DataView(new ArrayBuffer(8)),
  () => Float64Array.of(1, 0.5),
  () => Float32Array.of(Number.POSITIVE_INFINITY),
  () => Int8Array.of(1, -1),
  () => Int16Array.of(-1),
  () => Uint32Array.of(2 ** 31 - 1),
  () => BigInt64Array.of(1n),
  () => detach(Uint16Array.of(1)),
  () => new Proxy(Uint16Array.of(1), {}),
  ...NO_PLAIN_INT32_ARRAYS,
];

/** Array-likes of the token ids 1, 2, 3. */
export const TOKEN_IDS: (() => ArrayLike<number>)[] = [
  () => [1, 2, 3],
  () => Int32Array.of(1, 2, 3),
  () => Int8Array.of(1, 2, 3),
  () => Uint8Array.of(1, 2, 3),
  () => Uint8ClampedArray.of(1, 2, 3),
  () => Int16Array.of(1, 2, 3),
  () => Uint16Array.of(1, 2, 3),
  () => Uint32Array.of(1, 2, 3),
  () => Float32Array.of(1, 2, 3),
  () => Float64Array.of(1, 2, 3),
  () => Buffer.of(1, 2, 3),
  () => new Uint8Array(Uint8Array.of(0, 1, 2, 3).buffer, 1),
  () => ({ length: 3, 0: 1, 1: 2, 2: 3 }),
  () => Object.freeze([1, 2, 3]),
  () => new Proxy([1, 2, 3], {}),
  () => foreignRealm('[1, 2, 3]') as number[],
  () => foreignRealm('new Uint16Array([1, 2, 3])') as Uint16Array,
];

/** Reads like the array, but is none: it may answer differently each time. */
export function transparentProxy(array: Int32Array): Int32Array {
  return new Proxy(array, { get: (target, key) => Reflect.get(target, key, target) as unknown });
}

export function foreignRealm(code: string): unknown {
  return vm.runInNewContext(code) as unknown;
}

/** A good array on which every property that the language has for it throws. */
export function booby<T extends Int32Array | Uint8Array>(array: T): T {
  const shared = Object.getPrototypeOf(Int32Array.prototype) as object;
  for (const key of Reflect.ownKeys(shared)) Object.defineProperty(array, key, { get: hostile });
  return array;
}

/** An array that says it is longer than it is. */
export function lying(array: Int32Array, length: number): Int32Array {
  Object.defineProperty(array, 'length', { value: length });
  return array;
}
