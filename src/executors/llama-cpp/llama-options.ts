// The options of a `LlamaExecutor`, with defaults that suit the machine.
import { badArg, checkBoolean, checkOneOf, isObject } from '../../base/checks.js';
import { badArgument, checkInteger } from '../../base/errors.js';
import { checkNames, knownNames } from '../../base/known-names.js';
import { defaultThreads } from './llama-threads.js';
import { LlamaModel } from './model/llama-model.js';

/** Options of `LlamaExecutor.create`. */
export interface LlamaExecutorOptions {
  /**
   * The model. It may be disposed after the executor has been made; the weights stay as long as the
   * executor.
   */
  readonly model: LlamaModel;
  /**
   * Blocks of the KV pool, the null block included: (numBlocks - 1) x blockSize cells of
   * llama.cpp's cache.
   */
  readonly numBlocks: number;
  /** Tokens per block. Default 16. */
  readonly blockSize?: number;
  /** Most requests in one step. Default 16. */
  readonly maxNumSeqs?: number;
  /** Most tokens in one step. Default 512. Longer steps delay all requests. */
  readonly maxNumBatchedTokens?: number;
  /**
   * Most tokens of one request. Default: the model's training length, or the size of the pool if
   * that is less.
   */
  readonly maxModelLen?: number;
  /** Most draft tokens of a request in one step. Default 0. */
  readonly numSpeculativeTokens?: number;
  /**
   * Sequences of llama.cpp that keep blocks of ended requests, for the prefix cache. With
   * `maxNumSeqs` at most 256, with a sliding window 128. llama.cpp keeps a row of logits for each
   * sequence. Default 112, or the rest up to that limit.
   */
  readonly cachedSequences?: number;
  /** Type of keys and values in the cache. Default f16. q8_0 needs flash attention. */
  readonly cacheType?: 'f16' | 'f32' | 'q8_0';
  /** Whether to use flash attention. Default `auto`: if available. */
  readonly flashAttention?: 'auto' | 'on' | 'off';
  /**
   * Threads that compute on the CPU. Default: one less than the processors of the machine or the
   * container, at least one and at most eight.
   */
  readonly threads?: number;
  /**
   * Most tokens that are computed at once. The memory for intermediate results depends on this
   * number. Default 512.
   */
  readonly microBatch?: number;
  /**
   * Whether connectors can copy KV blocks out of llama.cpp's cache and back, by `LlamaExecutor.kv`.
   * `create` then reads the files of the model and its adapters once, to tell their blocks from
   * those of other models. Only for models with attention in all layers and without a sliding
   * window. Default false.
   */
  readonly kvTransfer?: boolean;
}

/** The reason why there is no context shift, and its alternatives: docs/llama-cpp.md. */
export const NO_CONTEXT_SHIFT =
  'texts share their KV, so none of them can be shifted: shorten the text in the client, or raise the context';

const OPTIONS = knownNames<LlamaExecutorOptions>(
  'the options of a LlamaExecutor',
  {
    model: true,
    numBlocks: true,
    blockSize: true,
    maxNumSeqs: true,
    maxNumBatchedTokens: true,
    maxModelLen: true,
    numSpeculativeTokens: true,
    cachedSequences: true,
    cacheType: true,
    flashAttention: true,
    threads: true,
    microBatch: true,
    kvTransfer: true,
  },
  {
    contextShift: NO_CONTEXT_SHIFT,
    nKeep: NO_CONTEXT_SHIFT,
    loras: 'it belongs to openLlamaModel',
  },
);

/** Why the KV of a model cannot be copied block by block. */
const NO_BLOCKS = {
  window: 'the model has a sliding window, and llama.cpp does not save the cells behind it',
  state: 'the model has states, which cannot be cut into blocks',
} as const;

const DEFAULT_HOLDERS = 112;

/** llama.cpp's numbers for types of the cache, and for flash attention. */
export const TYPES = { f16: 1, f32: 0, q8_0: 8 } as const;
export const FLASH = { auto: -1, on: 1, off: 0 } as const;

export interface ResolvedLlamaOptions {
  readonly model: LlamaModel;
  readonly numBlocks: number;
  readonly blockSize: number;
  readonly maxNumSeqs: number;
  readonly maxNumBatchedTokens: number;
  readonly maxModelLen: number;
  readonly numSpeculativeTokens: number;
  readonly numSequences: number;
  readonly cacheType: 'f16' | 'f32' | 'q8_0';
  readonly nativeCacheType: number;
  readonly nativeFlashAttention: number;
  readonly threads: number;
  readonly microBatch: number;
  readonly kvTransfer: boolean;
}

/** Reads each option once. @throws ERR_BLOCKSTEP_BAD_ARG */
export function resolveLlamaOptions(options: LlamaExecutorOptions): ResolvedLlamaOptions {
  if (!isObject(options)) throw badArg('options', options, 'an object');
  checkNames(options, OPTIONS);
  const { model, numBlocks, blockSize = 16, maxNumSeqs = 16, maxNumBatchedTokens = 512 } = options;
  const { maxModelLen, numSpeculativeTokens = 0, cachedSequences, cacheType, flashAttention } = options;
  const { threads = defaultThreads(), microBatch = 512, kvTransfer = false } = options;
  const { library } = LlamaModel.nativeOf(model);
  const { slidingWindow, memory, contextLength } = model.info;
  const blocks = checkInteger('numBlocks', numBlocks, 2, 2 ** 24);
  const size = checkInteger('blockSize', blockSize, 1, 2 ** 16);
  const movesKv = checkBoolean('kvTransfer', kvTransfer);
  if (movesKv && (memory !== 'attention' || slidingWindow > 0))
    throw badArg('kvTransfer', true, `false, since ${NO_BLOCKS[slidingWindow > 0 ? 'window' : 'state']}`);
  const isTwice = slidingWindow > 0 && memory === 'attention';
  // Copies need a sequence of their own.
  const most = isTwice ? library.maxSequences / 2 : library.maxSequences - (movesKv ? 1 : 0);
  const numSeqs = checkInteger('maxNumSeqs', maxNumSeqs, 1, most);
  const rest = memory === 'attention' ? most - numSeqs : 0;
  const holders =
    cachedSequences === undefined
      ? Math.min(rest, DEFAULT_HOLDERS)
      : checkInteger('cachedSequences', cachedSequences, 0, rest);
  if (movesKv && holders === 0)
    throw badArgument('cachedSequences', '0', 'at least 1 with kvTransfer, which loads blocks into them');
  const batch = checkInteger('maxNumBatchedTokens', maxNumBatchedTokens, 1, 2 ** 24);
  const drafts = checkInteger('numSpeculativeTokens', numSpeculativeTokens, 0, 64);
  if (drafts > 0 && memory !== 'attention')
    throw badArgument('numSpeculativeTokens', String(drafts), `0, since the model is ${memory}`);
  const type = checkOneOf('cacheType', cacheType, ['f16', 'f32', 'q8_0']);
  const flash = checkOneOf('flashAttention', flashAttention, ['auto', 'on', 'off']);
  if (type === 'q8_0' && flash === 'off')
    throw badArgument('flashAttention', 'off', 'auto or on, which q8_0 needs');
  const held = (blocks - 1) * size;
  return {
    model,
    numBlocks: blocks,
    blockSize: size,
    maxNumSeqs: numSeqs,
    maxNumBatchedTokens: batch,
    maxModelLen:
      maxModelLen === undefined
        ? Math.min(contextLength, held)
        : checkInteger('maxModelLen', maxModelLen, 1, contextLength),
    numSpeculativeTokens: drafts,
    numSequences: numSeqs + holders,
    cacheType: type,
    nativeCacheType: TYPES[type],
    nativeFlashAttention: FLASH[flash],
    threads: checkInteger('threads', threads, 1, 1024),
    microBatch: checkInteger('microBatch', microBatch, 1, 2 ** 20),
    kvTransfer: movesKv,
  };
}
