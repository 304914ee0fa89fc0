import { closeSync, openSync, writeSync } from 'node:fs';

/** The types of a GGUF file's metadata, by their numbers in the file. */
const VALUE_TYPES = { u16: 2, u32: 4, i32: 5, f32: 6, bool: 7, text: 8, list: 9 } as const;
/** The types of tensors, by their numbers in the file. */
const TENSOR_TYPES = { F32: 0, Q8_0: 8 } as const;
const ALIGNMENT = 32;
/** Weights that share a scale in Q8_0. */
const GROUP = 32;

/** How the weights of a tensor are stored. */
export type WeightType = keyof typeof TENSOR_TYPES;

interface Tensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly type: WeightType;
  readonly fill: (weights: Float32Array) => void;
}

const u16 = (value: number) => Buffer.from(Uint16Array.of(value).buffer);
const u32 = (value: number) => Buffer.from(Uint32Array.of(value).buffer);
const u64 = (value: number) => Buffer.from(BigUint64Array.of(BigInt(value)).buffer);
const f32 = (value: number) => Buffer.from(Float32Array.of(value).buffer);
const text = (value: string) => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)]);
const list = (type: keyof typeof VALUE_TYPES, items: readonly Buffer[]) =>
  Buffer.concat([u32(VALUE_TYPES[type]), u64(items.length), ...items]);

/** A GGUF file that is being put together: metadata and tensors in the order in which they are given. */
export class GgufFile {
  readonly #values: Buffer[] = [];
  readonly #tensors: Tensor[] = [];

  u16(key: string, value: number): void {
    this.#value(key, 'u16', u16(value));
  }

  u32(key: string, value: number): void {
    this.#value(key, 'u32', u32(value));
  }

  i32(key: string, value: number): void {
    this.#value(key, 'i32', u32(value));
  }

  f32(key: string, value: number): void {
    this.#value(key, 'f32', f32(value));
  }

  bool(key: string, value: boolean): void {
    this.#value(key, 'bool', Buffer.of(value ? 1 : 0));
  }

  text(key: string, value: string): void {
    this.#value(key, 'text', text(value));
  }

  texts(key: string, values: readonly string[]): void {
    this.#value(key, 'list', list('text', values.map(text)));
  }

  i32s(key: string, values: readonly number[]): void {
    this.#value(key, 'list', list('i32', values.map(u32)));
  }

  f32s(key: string, values: readonly number[]): void {
    this.#value(key, 'list', list('f32', values.map(f32)));
  }

  /**
   * Adds a tensor.
   * @param shape the dimension that lies together in memory first, as GGUF has it; with Q8_0 a multiple of 32
   * @param fill writes the weights, when the file is written
   */
  tensor(
    name: string,
    shape: readonly number[],
    type: WeightType,
    fill: (weights: Float32Array) => void,
  ): void {
    if (type === 'Q8_0' && shape[0] % GROUP !== 0)
      throw new Error(`${name}: rows of ${shape[0]} weights are no Q8_0`);
    this.#tensors.push({ name, shape, type, fill });
  }

  /** Writes the file. @param version of the format that the file says it has */
  write(path: string, version = 3): void {
    writeFile(path, this.#values, this.#tensors, version);
  }

  /** Writes it in parts, as llama-gguf-split does. @returns their paths */
  writeParts(prefix: string, count: number): readonly string[] {
    const perPart = Math.ceil(this.#tensors.length / count);
    return Array.from({ length: count }, (_, i) => {
      const digits = (number: number) => String(number).padStart(5, '0');
      const path = `${prefix}-${digits(i + 1)}-of-${digits(count)}.gguf`;
      const split = new GgufFile();
      split.u16('split.no', i);
      split.u16('split.count', count);
      split.i32('split.tensors.count', this.#tensors.length);
      const values = [...(i === 0 ? this.#values : []), ...split.#values];
      writeFile(path, values, this.#tensors.slice(i * perPart, (i + 1) * perPart), 3);
      return path;
    });
  }

  #value(key: string, type: keyof typeof VALUE_TYPES, value: Buffer): void {
    this.#values.push(Buffer.concat([text(key), u32(VALUE_TYPES[type]), value]));
  }
}

function writeFile(
  path: string,
  values: readonly Buffer[],
  tensors: readonly Tensor[],
  version: number,
): void {
  let offset = 0;
  const infos = tensors.map((tensor) => {
    const { name, shape, type } = tensor;
    const info = [text(name), u32(shape.length), ...shape.map(u64), u32(TENSOR_TYPES[type]), u64(offset)];
    offset += padded(bytesOf(tensor));
    return Buffer.concat(info);
  });
  const counts = [u32(version), u64(tensors.length), u64(values.length)];
  const head = Buffer.concat([Buffer.from('GGUF'), ...counts, ...values, ...infos]);
  const file = openSync(path, 'w');
  try {
    writeSync(file, pad(head));
    for (const tensor of tensors) writeSync(file, pad(weightsOf(tensor)));
  } finally {
    closeSync(file);
  }
}

function weightsOf({ shape, type, fill }: Tensor): Buffer {
  const weights = new Float32Array(numWeights(shape));
  fill(weights);
  return type === 'F32' ? Buffer.from(weights.buffer) : quantized(weights);
}

/** Q8_0: for each 32 weights their scale as a 16-bit float, then 32 signed bytes. */
function quantized(weights: Float32Array): Buffer {
  const bytes = Buffer.alloc((weights.length / GROUP) * (2 + GROUP));
  for (let first = 0, at = 0; first < weights.length; first += GROUP, at += 2 + GROUP) {
    const group = weights.subarray(first, first + GROUP);
    const scale = group.reduce((most, weight) => Math.max(most, Math.abs(weight)), 0) / 127;
    bytes.writeUInt16LE(halfOf(scale), at);
    if (scale > 0) for (let i = 0; i < GROUP; i++) bytes.writeInt8(Math.round(group[i] / scale), at + 2 + i);
  }
  return bytes;
}

/** The bits of a positive number as a 16-bit float, rounded towards 0; one too small for a normal one is 0. */
function halfOf(value: number): number {
  const bits = new Uint32Array(Float32Array.of(value).buffer)[0];
  const exponent = (bits >>> 23) - 112;
  return exponent <= 0 ? 0 : (exponent << 10) | ((bits >>> 13) & 0x3ff);
}

function bytesOf({ shape, type }: Tensor): number {
  const count = numWeights(shape);
  return type === 'F32' ? 4 * count : (count / GROUP) * (2 + GROUP);
}

function numWeights(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

function padded(size: number): number {
  return Math.ceil(size / ALIGNMENT) * ALIGNMENT;
}

function pad(bytes: Buffer): Buffer {
  return Buffer.concat([bytes, Buffer.alloc(padded(bytes.length) - bytes.length)]);
}
