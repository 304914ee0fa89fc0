import type { Decoder, Encoder } from '@msgpack/msgpack';
import { optionalPackage } from '../../../base/packages/optional-package.js';

/** The supported versions of @msgpack/msgpack, in npm's notation. */
const VERSIONS = '^3.1.3';

/** The MessagePack type of the extension for typed arrays. */
const TYPED_ARRAY = 1;
/**
 * Kinds of typed arrays. Their indexes are used on the wire, so new kinds are added at the end. A
 * `Uint8Array` is plain bytes.
 */
const KINDS = [
  Int8Array,
  Uint8ClampedArray,
  Int16Array,
  Uint16Array,
  Int32Array,
  Uint32Array,
  Float32Array,
  Float64Array,
  BigInt64Array,
  BigUint64Array,
] as const;

/**
 * Packs values as MessagePack: all JSON values, and bigints, dates, bytes and typed arrays. Buffers
 * are unpacked as `Uint8Array`, `undefined` as null, and an instance of a class as a plain object.
 * Functions and symbols cannot be packed.
 */
export class Packer {
  readonly #encoder: Encoder;
  readonly #decoder: Decoder;

  private constructor(encoder: Encoder, decoder: Decoder) {
    this.#encoder = encoder;
    this.#decoder = decoder;
  }

  /** Loads the library. @throws ERR_BLOCKSTEP_NO_PACKAGE */
  static async open(maxBytes: number): Promise<Packer> {
    const what = 'a transport over Redis or Valkey';
    const library = await optionalPackage<typeof import('@msgpack/msgpack')>(
      '@msgpack/msgpack',
      VERSIONS,
      what,
    );
    const extensionCodec = new library.ExtensionCodec();
    extensionCodec.register({ type: TYPED_ARRAY, encode: packTypedArray, decode: unpackTypedArray });
    const shared = { extensionCodec, useBigInt64: true } as const;
    return new Packer(
      new library.Encoder({ ...shared, ignoreUndefined: true }),
      // Every element takes at least one byte, so no list in a message has more entries than the
      // message has bytes.
      new library.Decoder({ ...shared, maxArrayLength: maxBytes, maxMapLength: maxBytes }),
    );
  }

  /** @throws if a value cannot be packed */
  pack(value: unknown): Uint8Array {
    return this.#encoder.encode(value);
  }

  /**
   * @returns the consecutive values in `bytes`
   * @throws if they are damaged
   */
  unpack(bytes: Uint8Array): unknown[] {
    // A Buffer would yield Buffers, whose `slice` is no copy.
    return [...this.#decoder.decodeMulti(new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length))];
  }
}

function packTypedArray(value: unknown): Uint8Array | null {
  if (!ArrayBuffer.isView(value)) return null;
  const kind = KINDS.findIndex((each) => value instanceof each);
  if (kind < 0) return null;
  const packed = new Uint8Array(1 + value.byteLength);
  packed[0] = kind;
  packed.set(new Uint8Array(value.buffer, value.byteOffset, value.byteLength), 1);
  return packed;
}

function unpackTypedArray(packed: Uint8Array): unknown {
  const Kind = KINDS[packed[0]];
  // An unknown kind throws. The bytes are copied, because the array must be aligned to its element
  // size and must outlive the message.
  return new Kind(packed.slice(1).buffer as ArrayBuffer);
}
