import { closeSync, fstatSync, openSync } from 'node:fs';
import { badModel } from './bad-model.js';
import { CutOff, FileBytes } from './file-bytes.js';
import { type TensorType, tensorType } from './tensor-types.js';

const VERSIONS = [2, 3];
/** The versions as a big-endian machine writes them. */
const BIG_ENDIAN = VERSIONS.map((version) => version * 2 ** 24);
/**
 * The longest list that is kept. Lists with a value for each layer fit; the tokens of a vocabulary
 * do not.
 */
const MOST_KEPT = 4096;
const MOST_DIMENSIONS = 4;
const DEFAULT_ALIGNMENT = 32;

/**
 * A value of a file's metadata. Of the tokens, and of a list with more than 4,096 items, only the
 * length is kept.
 */
export type GgufValue =
  | string
  | number
  | boolean
  | readonly (string | number | boolean)[]
  | { readonly length: number };

/** A tensor of a file. */
export interface GgufTensor {
  readonly name: string;
  /** Dimensions, the contiguous one first. */
  readonly shape: readonly number[];
  readonly type: TensorType;
  readonly bytes: number;
}

/** The part of a GGUF file in front of its weights. */
export interface GgufFile {
  readonly path: string;
  /** Version of the format. */
  readonly version: number;
  readonly values: ReadonlyMap<string, GgufValue>;
  /** The number of the type of each value. */
  readonly types: ReadonlyMap<string, number>;
  readonly tensors: readonly GgufTensor[];
  /** Bytes of all tensors. */
  readonly weightBytes: number;
}

/** How a value is read, and the least bytes that it takes. */
type Reader = readonly [least: number, read: (bytes: FileBytes) => string | number | boolean];

/** By the number of the type in the file. Number 8 is a text, 9 a list. */
const READERS: Readonly<Record<number, Reader>> = {
  0: [1, (bytes) => bytes.u8()],
  1: [1, (bytes) => bytes.i8()],
  2: [2, (bytes) => bytes.u16()],
  3: [2, (bytes) => bytes.i16()],
  4: [4, (bytes) => bytes.u32()],
  5: [4, (bytes) => bytes.i32()],
  6: [4, (bytes) => bytes.f32()],
  7: [1, (bytes) => bytes.u8() !== 0],
  8: [8, (bytes) => bytes.text()],
  10: [8, (bytes) => bytes.u64()],
  11: [8, (bytes) => bytes.i64()],
  12: [8, (bytes) => bytes.f64()],
};
const TEXT = 8;
const LIST = 9;
const TOKENS = 'tokenizer.ggml.tokens';

/**
 * Reads the part of a GGUF file in front of its weights, and checks that the weights are there.
 * This is all that can be known of a model without loading it. For a model in several parts, the
 * path is that of the first part, and all parts are read.
 * @throws ERR_BLOCKSTEP_BAD_MODEL for a file that is missing, truncated, of another format or
 * version, or not the first part
 */
export function readGguf(path: string): GgufFile {
  const first = readPart(path);
  const paths = partPaths(path, first.values.get('split.count'));
  if (paths.length === 1) return first;
  const parts = [first, ...paths.slice(1).map(readPart)];
  for (const [number, part] of parts.entries())
    if (part.values.get('split.no') !== number || part.values.get('split.count') !== parts.length)
      throw badModel(part.path, `is not part ${number + 1} of ${parts.length} of the model ${path}`);
  const tensors = parts.flatMap((part) => part.tensors);
  const wanted = first.values.get('split.tensors.count');
  if (typeof wanted === 'number' && wanted !== tensors.length)
    throw badModel(path, `must have ${wanted} tensors, and its ${parts.length} parts have ${tensors.length}`);
  return { ...first, tensors, weightBytes: parts.reduce((sum, part) => sum + part.weightBytes, 0) };
}

function readPart(path: string): GgufFile {
  let file: number;
  try {
    file = openSync(path, 'r');
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    throw badModel(path, code === 'ENOENT' ? 'does not exist' : `cannot be opened (${code})`, cause);
  }
  try {
    const status = fstatSync(file);
    if (!status.isFile()) throw badModel(path, 'is not a file');
    return readWhole(path, new FileBytes(file, status.size), status.size);
  } catch (cause) {
    if (!(cause instanceof CutOff)) throw cause;
    throw badModel(path, `is cut off or damaged: ${cause.message}; copy or download it again`, cause);
  } finally {
    closeSync(file);
  }
}

function readWhole(path: string, bytes: FileBytes, size: number): GgufFile {
  const version = readVersion(path, bytes);
  const numTensors = bytes.u64();
  const numValues = bytes.u64();
  const values = new Map<string, GgufValue>();
  const types = new Map<string, number>();
  for (let i = 0; i < numValues; i++) {
    const key = bytes.text();
    const type = bytes.u32();
    types.set(key, type);
    values.set(key, readValue(path, key, type, bytes));
  }
  const tensors: GgufTensor[] = [];
  let weightBytes = 0;
  let end = 0;
  for (let i = 0; i < numTensors; i++) {
    const tensor = readTensor(path, bytes);
    tensors.push(tensor);
    weightBytes += tensor.bytes;
    end = Math.max(end, bytes.u64() + tensor.bytes);
  }
  const alignment = values.get('general.alignment') ?? DEFAULT_ALIGNMENT;
  if (typeof alignment !== 'number' || !(alignment >= 1) || alignment > 2 ** 20)
    throw badModel(path, 'is damaged: general.alignment is not a number of bytes');
  const start = Math.ceil(bytes.position / alignment) * alignment;
  if (start + end > size)
    throw new CutOff(`its weights end at byte ${start + end}, and the file has ${size} bytes`);
  return { path, version, values, types, tensors, weightBytes };
}

function readVersion(path: string, bytes: FileBytes): number {
  const foreign = 'is not a GGUF file';
  if (bytes.left < 24) throw badModel(path, `${foreign}: it has ${bytes.left} bytes`);
  const magic = bytes.bytes(4).toString('latin1');
  if (magic !== 'GGUF')
    throw badModel(path, `${foreign}: it begins with ${JSON.stringify(magic)}, not "GGUF"`);
  const version = bytes.u32();
  if (BIG_ENDIAN.includes(version))
    throw badModel(path, 'was written for machines that put the high byte first, which this one does not');
  if (!VERSIONS.includes(version))
    throw badModel(
      path,
      `has version ${version} of the format; versions ${VERSIONS.join(' and ')} can be read`,
    );
  return version;
}

function readValue(path: string, key: string, type: number, bytes: FileBytes): GgufValue {
  if (type !== LIST) return readerOf(path, key, type)[1](bytes);
  const itemType = bytes.u32();
  const length = bytes.u64();
  const [least, read] = readerOf(path, key, itemType);
  if (length * least > bytes.left)
    throw new CutOff(`${shortened(key)} must have ${length} items, but there are ${bytes.left} bytes`);
  if (key === TOKENS && itemType === TEXT) {
    checkTokens(path, length, bytes);
    return { length };
  }
  if (length <= MOST_KEPT) return Array.from({ length }, () => read(bytes));
  if (itemType !== TEXT) bytes.skip(length * least);
  else for (let i = 0; i < length; i++) bytes.skip(bytes.u64());
  return { length };
}

/**
 * Reads the tokens. llama.cpp aborts the process if two tokens are equal. llama.cpp itself names
 * tokens without a text.
 */
function checkTokens(path: string, count: number, bytes: FileBytes): void {
  const first = new Map<string, number>();
  for (let i = 0; i < count; i++) {
    const token = bytes.text('latin1') || `[EMPTY_${i}]`;
    const before = first.get(token);
    if (before !== undefined) throw badModel(path, `is damaged: its tokens ${before} and ${i} are the same`);
    first.set(token, i);
  }
}

function readerOf(path: string, key: string, type: number): Reader {
  const reader = Object.hasOwn(READERS, type) ? READERS[type] : undefined;
  if (reader === undefined)
    throw badModel(path, `is damaged: ${shortened(key)} has the unknown type ${type}`);
  return reader;
}

function readTensor(path: string, bytes: FileBytes): GgufTensor {
  const name = bytes.text();
  const dimensions = bytes.u32();
  if (dimensions > MOST_DIMENSIONS)
    throw badModel(path, `is damaged: the tensor ${shortened(name)} has ${dimensions} dimensions`);
  const shape = Array.from({ length: dimensions }, () => bytes.u64());
  const number = bytes.u32();
  const type = tensorType(number);
  if (type === null)
    throw badModel(path, `has a tensor, ${shortened(name)}, of type ${number}, which is not supported`);
  const weights = shape.reduce((product, length) => product * length, 1);
  if ((shape[0] ?? 1) % type.weights !== 0)
    throw badModel(path, `is damaged: rows of ${shape[0]} weights in ${shortened(name)} are no ${type.name}`);
  return { name, shape, type, bytes: (weights / type.weights) * type.bytes };
}

function shortened(name: string): string {
  return JSON.stringify(name.slice(0, 60));
}

/** The file name of a part, as llama.cpp expects it. */
const PART = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/;

/**
 * The paths of all parts of a model, from the path of the first part.
 * @param count the number of parts by the file (`split.count`): absent or 1 for a model of one file
 * @throws ERR_BLOCKSTEP_BAD_MODEL if the path is that of another part, or does not lead to the
 * other parts
 */
export function partPaths(path: string, count: unknown): readonly string[] {
  if (typeof count !== 'number' || count <= 1) return [path];
  const [, prefix, number, of] = PART.exec(path) ?? [];
  if (prefix === undefined || Number(of) !== count)
    throw badModel(path, `is one of ${count} parts, and is not named NAME-00001-of-${digits(count)}.gguf`);
  if (Number(number) !== 1)
    throw badModel(
      path,
      `is part ${Number(number)} of ${count}; name the first part, with the others beside it`,
    );
  return Array.from({ length: count }, (_, i) => `${prefix}-${digits(i + 1)}-of-${digits(count)}.gguf`);
}

function digits(number: number): string {
  return String(number).padStart(5, '0');
}
