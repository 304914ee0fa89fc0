import { badArg, isObject } from '../../base/checks.js';
import { checkInteger } from '../../base/errors.js';
import { checkNames, knownNames } from '../../base/known-names.js';
import type { KvGroupType } from '../events/kv-event.js';
import type { KvGroupOptions } from './kv-groups.js';

/**
 * A layer of a model, as far as its KV cache is concerned. Layers without their own KV cache (MLPs,
 * layers that share another's KV) are left out.
 */
export interface KvLayer {
  /** How much of the preceding tokens a token needs. */
  readonly type: KvGroupType;
  /**
   * Bytes of the KV of one token in this layer, on one rank. They are 2 x heads x head size x bytes
   * of an element, for `mla` the latent vector. For `mamba`: bytes of one state.
   */
  readonly bytes: number;
  /** Of `sliding`: tokens that a token attends to, itself included. */
  readonly window?: number;
  /** Of `chunked`: tokens of a chunk. */
  readonly chunk?: number;
  /** Of `sink`: tokens that are kept for good. */
  readonly sinkTokens?: number;
  /** Of `mamba`: see `KvGroupOptions.mode`. */
  readonly mode?: 'none' | 'align' | 'all';
  /** Of `mamba`: blocks for the states of draft tokens. */
  readonly numSpeculativeBlocks?: number;
}

/** Options for grouping the layers of a model. */
export interface LayerOptions {
  /** Tokens per block of the layers with the most KV per token. Default 16. */
  readonly blockSize?: number;
  /** Bytes of the pool, on one rank. Default 0. */
  readonly memoryBytes?: number;
}

/** The groups of a model, and the block size and count of a pool for them. */
export interface LayerGroups {
  /** For the option `kvGroups`. */
  readonly kvGroups: readonly KvGroupOptions[];
  /** By group: indexes into the layers. */
  readonly layers: readonly (readonly number[])[];
  /** Bytes of one block of the pool: a page for each layer of a group. */
  readonly bytesPerBlock: number;
  /** Blocks of a pool of `memoryBytes`, the null block included: for the option `numBlocks`. 0 without `memoryBytes`. */
  readonly numBlocks: number;
}

const LAYER = knownNames<KvLayer>('a layer', {
  type: true,
  bytes: true,
  window: true,
  chunk: true,
  sinkTokens: true,
  mode: true,
  numSpeculativeBlocks: true,
});
/**
 * If one kind of layer is hardly more frequent than another, padding costs less than more groups.
 */
const NEARLY_EQUAL = 1.5;

/** A layer with the number of tokens per block. */
interface Sized {
  readonly layer: KvLayer;
  readonly index: number;
  readonly blockSize: number;
}

/**
 * Makes the KV cache groups of a model from its layers, as vLLM does (`get_kv_cache_groups`).
 * Layers of equal kind share groups, so that every group has about as many layers. Blocks of all
 * groups have the same size in bytes, so layers with less KV per token have more tokens in a block.
 * @throws ERR_BLOCKSTEP_BAD_ARG, also if the sizes of pages cannot be made equal
 */
export function groupLayers(
  layers: readonly KvLayer[],
  { blockSize = 16, memoryBytes = 0 }: LayerOptions = {},
): LayerGroups {
  checkInteger('blockSize', blockSize, 1, 2 ** 16);
  checkInteger('memoryBytes', memoryBytes, 0, Number.MAX_SAFE_INTEGER);
  if (!Array.isArray(layers) || layers.length === 0)
    throw badArg('layers', layers, 'a list of one layer or more');
  layers.forEach(checkLayer);
  const page = Math.max(...layers.map(({ type, bytes }) => (type === 'mamba' ? bytes : bytes * blockSize)));
  const sized = layers.map((layer, index) => ({
    layer,
    index,
    blockSize: sizeOf(layer, index, blockSize, page),
  }));
  const specs = alike(sized);
  const counts = specs.map(({ length }) => length);
  const [least, most] = [Math.min(...counts), Math.max(...counts)];
  // Layers that differ only in the size of their KV form one group, whatever that size.
  const perGroup = specs.length === 1 ? most : most < NEARLY_EQUAL * least ? most : least;
  const groups = specs.flatMap((spec) => splitEvenly(spec, Math.ceil(spec.length / perGroup)));
  const bytesPerBlock = perGroup * page;
  return {
    kvGroups: groups.map(([{ layer, blockSize: size }]) => optionsOf(layer, size)),
    layers: groups.map((group) => group.map(({ index }) => index)),
    bytesPerBlock,
    numBlocks: Math.floor(memoryBytes / bytesPerBlock),
  };
}

function checkLayer(layer: unknown, index: number): void {
  if (!isObject(layer)) throw badArg(`layers[${index}]`, layer, 'an object with a type and bytes');
  checkNames(layer, LAYER);
  checkInteger(`layers[${index}].bytes`, layer['bytes'], 1, 2 ** 40);
}

/**
 * The number of tokens in a layer's block, chosen so that its page has as many bytes as all other
 * pages.
 */
function sizeOf({ type, bytes }: KvLayer, index: number, blockSize: number, page: number): number {
  // A state is padded to the page. Its mode decides the number of tokens of its block.
  if (type === 'mamba') return blockSize;
  const ratio = page / (bytes * blockSize);
  if (Number.isInteger(ratio)) return blockSize * ratio;
  const expected = `a divisor of the largest page (${page} bytes), ${blockSize} tokens each`;
  throw badArg(`layers[${index}].bytes`, bytes, expected);
}

/** Layers of the same kind, in the order of their first ones. */
function alike(layers: readonly Sized[]): Sized[][] {
  const specs = new Map<string, Sized[]>();
  for (const layer of layers) {
    const key = keyOf(layer);
    const spec = specs.get(key);
    if (spec === undefined) specs.set(key, [layer]);
    else spec.push(layer);
  }
  return [...specs.values()];
}

/** A key of a layer: layers with equal keys can share a block table. */
function keyOf({ layer, blockSize }: Sized): string {
  const { type, window, chunk, sinkTokens, mode, numSpeculativeBlocks } = layer;
  return JSON.stringify([type, blockSize, window, chunk, sinkTokens, mode, numSpeculativeBlocks]);
}

/** Splits layers into groups: layer j goes to group j modulo the number of groups. */
function splitEvenly(layers: readonly Sized[], numGroups: number): Sized[][] {
  return Array.from({ length: numGroups }, (_, g) => layers.filter((_layer, j) => j % numGroups === g));
}

function optionsOf(layer: KvLayer, blockSize: number): KvGroupOptions {
  const { type, window, chunk, sinkTokens, mode, numSpeculativeBlocks } = layer;
  return {
    type,
    ...(type === 'mamba' ? {} : { blockSize }),
    ...(window !== undefined && { window }),
    ...(chunk !== undefined && { chunk }),
    ...(sinkTokens !== undefined && { sinkTokens }),
    ...(mode !== undefined && { mode }),
    ...(numSpeculativeBlocks !== undefined && { numSpeculativeBlocks }),
  };
}
