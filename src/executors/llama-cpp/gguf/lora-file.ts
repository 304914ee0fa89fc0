// The header of a LoRA adapter's file, and whether the adapter fits the model.
import { BlockstepError, messageOf } from '../../../base/errors.js';
import type { GgufFile, GgufTensor } from './gguf-file.js';
import { readGguf } from './gguf-file.js';

const A = '.lora_a';
const B = '.lora_b';
/** llama.cpp ignores adapters of these tensors. */
const IGNORED = '_norm.weight';
const EMBEDDING = 'token_embd.weight';
/** Types that llama.cpp cannot multiply with. */
const NOT_MULTIPLIED = /^(I\d+|F64)$/;
/** The number of the type in a file. */
const F32 = 6;

/** The two matrices of an adapter for one tensor of the model. */
interface Pair {
  a?: GgufTensor;
  b?: GgufTensor;
}

/**
 * Reads the header of a LoRA adapter's file, and checks that the adapter fits the model. llama.cpp
 * checks less: it aborts the process if the adapter is first used, or if a value has another type.
 * @param name of the adapter, for messages
 * @param model the header of the model's file
 * @returns bytes of the adapter's weights
 * @throws ERR_BLOCKSTEP_BAD_MODEL
 */
export function readLora(name: string, path: string, model: GgufFile): number {
  const file = readHeader(name, path);
  const bad = (what: string): BlockstepError => badLora(name, `${path} ${what}`);
  const { values, types, tensors } = file;
  if (values.get('general.type') !== 'adapter' || values.get('adapter.type') !== 'lora')
    throw bad('is no LoRA adapter (general.type and adapter.type say what a file is)');
  const [own, theirs] = [values, model.values].map((each) => each.get('general.architecture'));
  if (own !== theirs) throw bad(`is for a model of the architecture ${own}, and the model is ${theirs}`);
  if ([...values.keys()].some((key) => key.startsWith('adapter.alora.')))
    throw bad('is an activated LoRA (aLoRA), which is not supported');
  const alpha = values.get('adapter.lora.alpha');
  if (alpha !== undefined && (types.get('adapter.lora.alpha') !== F32 || !Number.isFinite(alpha)))
    throw bad('is damaged: adapter.lora.alpha is no finite number of 32 bits');
  const ofModel = new Map(model.tensors.map((tensor) => [tensor.name, tensor]));
  const pairs = pairsOf(tensors, bad);
  if (pairs.size === 0) throw bad('has no tensors for a model');
  for (const [target, { a, b }] of pairs) {
    const tensor = ofModel.get(target);
    if (a === undefined || b === undefined) throw bad(`has one of two matrices only for ${target}`);
    if (tensor === undefined) throw bad(`is for another model: this one has no tensor ${target}`);
    const why = mismatch(tensor, a, b);
    if (why !== null) throw bad(`is for another model, or damaged: ${target} ${why}`);
    if (target === EMBEDDING && !ofModel.has('output.weight'))
      throw bad('changes the embeddings of a model that has no output matrix of its own: unsupported');
  }
  return file.weightBytes;
}

/** Reads the headers of adapters by name: see `readLora`. @returns bytes of all weights */
export function readLoras(loras: Iterable<readonly [string, string]>, model: GgufFile): number {
  let bytes = 0;
  for (const [name, path] of loras) bytes += readLora(name, path, model);
  return bytes;
}

/** The error that refuses an adapter. @param what the defect, in words behind its name */
function badLora(name: string, what: string, cause?: unknown): BlockstepError {
  return new BlockstepError('ERR_BLOCKSTEP_BAD_MODEL', `the adapter ${JSON.stringify(name)}: ${what}`, {
    cause,
  });
}

function readHeader(name: string, path: string): GgufFile {
  try {
    return readGguf(path);
  } catch (cause) {
    throw badLora(name, messageOf(cause), cause);
  }
}

function pairsOf(tensors: readonly GgufTensor[], bad: (what: string) => Error): Map<string, Pair> {
  const pairs = new Map<string, Pair>();
  for (const tensor of tensors) {
    const { name, type } = tensor;
    const isA = name.endsWith(A);
    if (!isA && !name.endsWith(B)) {
      if (name.endsWith(IGNORED)) continue;
      throw bad(`has a tensor ${JSON.stringify(name.slice(0, 60))}, which is no part of a LoRA`);
    }
    if (NOT_MULTIPLIED.test(type.name)) throw bad(`has a tensor of the type ${type.name}: ${name}`);
    const target = name.slice(0, -A.length);
    const pair = pairs.get(target) ?? {};
    if ((isA ? pair.a : pair.b) !== undefined) throw bad(`is damaged: it has ${name} twice`);
    pairs.set(target, isA ? { ...pair, a: tensor } : { ...pair, b: tensor });
  }
  return pairs;
}

/** Why two matrices cannot change a tensor; null: they can. */
function mismatch(tensor: GgufTensor, a: GgufTensor, b: GgufTensor): string | null {
  const [inputs, outputs = 1, ...experts] = tensor.shape;
  const [rank] = b.shape;
  // The matrices of the embeddings are transposed, because llama.cpp picks rows of A by tokens.
  const isEmbedding = tensor.name === EMBEDDING;
  const wantedA = isEmbedding ? [rank, outputs, ...experts] : [inputs, rank, ...experts];
  const wantedB = isEmbedding ? [rank, inputs, ...experts] : [rank, outputs, ...experts];
  if (!(rank >= 1) || !isShape(a.shape, wantedA) || !isShape(b.shape, wantedB))
    return `has the sizes ${tensor.shape.join(' x ')}, and the adapter's are ${a.shape.join(' x ')} and ${b.shape.join(' x ')}`;
  // llama.cpp scales the products of this type after the adapter.
  if (tensor.type.name === 'NVFP4') return 'has the type NVFP4, which no adapter can change';
  return null;
}

/** Whether shapes are equal, apart from ones at the end. */
function isShape(shape: readonly number[], wanted: readonly number[]): boolean {
  const length = Math.max(shape.length, wanted.length);
  return Array.from({ length }, (_, i) => (shape[i] ?? 1) === (wanted[i] ?? 1)).every(Boolean);
}
