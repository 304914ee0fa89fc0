// The bad values for that.
import { detach, OTHER_ARRAYS } from '../misuse/bad-values.js';

export const hostile = () => {
  throw new Error('native code must not run this');
};

export const proxy = (target: object) => new Proxy(target, { get: hostile, has: hostile, ownKeys: hostile });

/** Wrong for every integer argument: no limit of the addon reaches 2^31. */
export const NO_INTEGERS: unknown[] = [
  undefined,
  null,
  true,
  '',
  '7',
  Number.NaN,
  Number.POSITIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
  -1,
  0.5,
  2 ** 31,
  2 ** 32 - 1,
  2 ** 32,
  2 ** 53,
  2 ** 53 + 2,
  1e308,
  1n,
  2n ** 64n,
  Symbol('s'),
  {},
  [],
  [1],
  () => 1,
  { valueOf: hostile, toString: hostile, [Symbol.toPrimitive]: hostile },
  proxy({}),
  Int32Array.of(1),
  new Date(0),
  Object(1),
];

export const detached = (): Int32Array => detach(Int32Array.of(1, 2));

export const shared = (options = {}) =>
  new Int32Array(new (SharedArrayBuffer as never as BufferClass)(8, options));

export type BufferClass = new (bytes: number, options?: { maxByteLength?: number }) => ArrayBuffer;

/** Wrong for every Int32Array argument. */
export const NO_ARRAYS: (() => unknown)[] = [
  ...[undefined, null, 1, 'x', 1n, Symbol('s'), {}, [1, 2], () => 1, new ArrayBuffer(8)].map((v) => () => v),
  ...OTHER_ARRAYS,
  () => new Float64Array(new ArrayBuffer(17), 8, 1),
  () => shared(),
  () => shared({ maxByteLength: 64 }),
  detached,
  () => Object.create(Int32Array.prototype),
  () => Object.create(Int32Array.of(1)),
  () => proxy(Int32Array.of(1)),
  () => ({ length: 1, 0: 1, __proto__: Int32Array.prototype }),
];
