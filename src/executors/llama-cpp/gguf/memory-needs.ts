// The memory that a model takes, and the pool that fits.
import { BlockstepError } from '../../../base/errors.js';
import type { ModelCard } from './model-card.js';

/** Bytes of a number of the KV cache, by its type. A Q8_0 block has 32 numbers in 34 bytes. */
const CACHE_TYPES = { f32: 4, f16: 2, q8_0: 34 / 32 } as const;

/** The type of the numbers in the KV cache. */
export type CacheType = keyof typeof CACHE_TYPES;

/** The names of all types of the KV cache. */
export const CACHE_TYPE_NAMES = Object.keys(CACHE_TYPES) as readonly CacheType[];

/** The settings of a run that affect memory. */
export interface RunShape {
  /** Most tokens of a request, prompt and output together. */
  readonly maxModelLen: number;
  readonly maxNumSeqs: number;
  /** Most tokens of a step. */
  readonly maxNumBatchedTokens: number;
  readonly blockSize: number;
  readonly cacheType: CacheType;
}

/**
 * Bytes that a model takes. All are upper estimates, without the memory that the process uses
 * anyway.
 */
export interface MemoryNeeds {
  readonly weights: number;
  /** KV of one token. */
  readonly perToken: number;
  /** The states of all requests. */
  readonly states: number;
  /** Working memory of a step. */
  readonly work: number;
}

/** A pool that fits. */
export interface FittingPool {
  readonly numBlocks: number;
  readonly maxModelLen: number;
}

/**
 * Default size of a pool, in texts of the largest length. More cells cost memory, and time where
 * attention reads them.
 */
const TEXTS = 4;
/** Default pools get at least this many tokens if memory suffices. */
const LEAST_POOL = 32_768;
/** The largest default context. */
const DEFAULT_CONTEXT = 8192;
/** Blocks of a pool beyond the blocks of a text: the null block. */
const SPARE_BLOCKS = 1;

/** Estimates the memory of a model. */
export function memoryNeeds(
  card: ModelCard,
  shape: Omit<RunShape, 'maxModelLen' | 'blockSize'>,
): MemoryNeeds {
  const { kvNumbers, stateNumbers, width, feedForward, numTokens } = card;
  const { maxNumSeqs, maxNumBatchedTokens, cacheType } = shape;
  return {
    weights: card.weightBytes,
    perToken: (kvNumbers.keys + kvNumbers.values) * CACHE_TYPES[cacheType],
    states: 4 * stateNumbers * maxNumSeqs,
    // Vectors of a step within a layer, and the logits of the sampled rows.
    work: 4 * (maxNumBatchedTokens * (12 * width + 4 * feedForward) + maxNumSeqs * numTokens) + 64 * 2 ** 20,
  };
}

/**
 * Finds a pool and a context that fit into memory.
 * @param free bytes for model and pool together
 * @param shape the requested sizes; `maxModelLen` or `numBlocks` null: chosen to suit the model and
 * to fit
 * @throws ERR_BLOCKSTEP_NO_MEMORY if the requested sizes do not fit; the message says which sizes
 * would
 * @throws ERR_BLOCKSTEP_BAD_ARG for a context longer than the model was trained for
 */
export function fittingPool(
  card: ModelCard,
  shape: Omit<RunShape, 'maxModelLen'> & {
    readonly maxModelLen: number | null;
    readonly numBlocks: number | null;
  },
  free: number,
): FittingPool {
  const { blockSize } = shape;
  const needs = memoryNeeds(card, shape);
  const { contextLength } = card;
  const { maxModelLen: asked } = shape;
  if (asked !== null && asked > contextLength)
    throw new BlockstepError(
      'ERR_BLOCKSTEP_BAD_ARG',
      `a context of ${asked} tokens is more than the ${contextLength} that the model ${card.path} was trained for`,
    );
  const rest = free - needs.weights - needs.states - needs.work;
  // A model without attention keeps nothing per token. Its pool only counts tokens, and takes no
  // memory.
  const mostBlocks =
    needs.perToken === 0 ? Number.POSITIVE_INFINITY : Math.floor(rest / (needs.perToken * blockSize));
  const fitting = Math.max(0, Math.min(contextLength, (mostBlocks - SPARE_BLOCKS) * blockSize));
  const held = shape.numBlocks === null ? fitting : (shape.numBlocks - SPARE_BLOCKS) * blockSize;
  const maxModelLen = asked ?? Math.min(contextLength, DEFAULT_CONTEXT, Math.max(held, blockSize));
  const blocks = (tokens: number) => Math.ceil(tokens / blockSize) + SPARE_BLOCKS;
  const wanted = shape.numBlocks ?? blocks(maxModelLen);
  if (rest < 0 || wanted > mostBlocks)
    throw tooLarge(card, needs, { tokens: wanted * blockSize, free, fitting });
  if (shape.numBlocks !== null) return { numBlocks: shape.numBlocks, maxModelLen };
  const suits = blocks(Math.min(Math.max(TEXTS * maxModelLen, LEAST_POOL), shape.maxNumSeqs * maxModelLen));
  return { numBlocks: Math.max(wanted, Math.min(suits, mostBlocks)), maxModelLen };
}

function tooLarge(
  { path }: ModelCard,
  { weights, perToken, states, work }: MemoryNeeds,
  { tokens, free, fitting }: { tokens: number; free: number; fitting: number },
): BlockstepError {
  const cache = tokens * perToken;
  const needed = `${inWords(weights + cache + states + work)}: ${inWords(weights)} of weights, ${inWords(cache)} of KV cache for ${tokens} tokens, ${inWords(states + work)} to compute with`;
  const fits =
    fitting > 0
      ? `A pool and a context of ${fitting} tokens would fit, and a cache of smaller numbers takes less`
      : 'No context would fit: take a model with fewer or smaller weights';
  const message = `the model ${path} needs about ${needed}; ${inWords(free)} are free. ${fits}`;
  return new BlockstepError('ERR_BLOCKSTEP_NO_MEMORY', message);
}

/** A number of bytes, for people. */
export function inWords(bytes: number): string {
  const [size, unit] = bytes >= 2 ** 30 ? [2 ** 30, 'GiB'] : [2 ** 20, 'MiB'];
  return `${(Math.max(0, bytes) / size).toFixed(size === 2 ** 30 || bytes < 10 * 2 ** 20 ? 1 : 0)} ${unit}`;
}
