import { badArg, checkOneOf, isObject } from '../../base/checks.js';
import { BlockstepError, checkInteger, messageOf } from '../../base/errors.js';
import { INSPECT, showFacts } from '../../base/inspect.js';
import { checkNames, knownNames } from '../../base/known-names.js';
import type { Executor } from '../../engine/executor/executor.js';
import type { ExecutorLimits } from '../../engine/executor/executor-limits.js';
import { EmbedQueue } from './embed/embed-queue.js';
import { badModel } from './gguf/bad-model.js';
import { inWords, memoryNeeds } from './gguf/memory-needs.js';
import { POOLINGS } from './gguf/model-card.js';
import { FLASH, TYPES } from './llama-options.js';
import { defaultThreads } from './llama-threads.js';
import { LlamaModel } from './model/llama-model.js';
import type { NativeEmbedder } from './native/binding.js';
import { endAtExit } from './native/end-at-exit.js';
import { hasGpu } from './native/library.js';

/** Options of `LlamaEmbedder.create`. */
export interface LlamaEmbedderOptions {
  /** The model. It may be disposed after the embedder has been made. */
  readonly model: LlamaModel;
  /**
   * Most tokens of a text, and of all texts that are computed at once. Default: the model's
   * training length, at most 2,048.
   */
  readonly maxModelLen?: number;
  /** Most texts that are computed at once. Default 16. */
  readonly maxNumSeqs?: number;
  /** Threads that compute on the CPU. Default as for `LlamaExecutor`. */
  readonly threads?: number;
  /**
   * Type of keys and values while a text is computed. It matters for causal models only. Default
   * f16.
   */
  readonly cacheType?: 'f16' | 'f32';
  /** Whether to use flash attention, which computes in 16 bits. Default `auto`: if available. */
  readonly flashAttention?: 'auto' | 'on' | 'off';
  /**
   * How the vectors of a text's tokens become one vector. Default: the pooling of the model's file.
   */
  readonly pooling?: 'mean' | 'cls' | 'last';
}

const OPTIONS = knownNames<LlamaEmbedderOptions>('the options of a LlamaEmbedder', {
  model: true,
  maxModelLen: true,
  maxNumSeqs: true,
  threads: true,
  cacheType: true,
  flashAttention: true,
  pooling: true,
});
const DEFAULT_LENGTH = 2048;

/**
 * Computes embeddings or scores of texts by llama.cpp, for `Engine.embed`. This executor generates
 * no text, and refuses requests for text. Texts of several calls are computed together, in a thread
 * of its own.
 */
export class LlamaEmbedder implements Executor {
  readonly usesTables = false;
  readonly limits: ExecutorLimits;
  /** Length of a vector. */
  readonly dimensions: number;
  /**
   * Output of the model for a text: an embedding, or a score of how well a document answers a
   * query.
   */
  readonly kind: 'embeddings' | 'scores';
  readonly threads: number;
  readonly #model: LlamaModel['info'];
  readonly #maxModelLen: number;
  readonly #queue: EmbedQueue;

  private constructor(model: LlamaModel, native: NativeEmbedder, sizes: ReturnType<typeof parseOptions>) {
    const { maxModelLen, maxNumSeqs, threads } = sizes;
    this.#model = model.info;
    this.#maxModelLen = maxModelLen;
    this.threads = threads;
    this.dimensions = native.width();
    this.kind = POOLINGS[native.pooling()] === 'rank' ? 'scores' : 'embeddings';
    this.#queue = new EmbedQueue(native, maxModelLen, maxNumSeqs);
    this.limits = Object.freeze({ maxModelLen, pipelineDepth: 1, canRollBack: false });
  }

  /**
   * Makes an embedder, and allocates its working memory.
   * @returns a promise of it. It is rejected with ERR_BLOCKSTEP_BAD_ARG; ERR_BLOCKSTEP_NO_MEMORY;
   * ERR_BLOCKSTEP_BAD_MODEL for a model with states, or if neither the file nor `pooling` names a
   * pooling; ERR_BLOCKSTEP_DISPOSED
   */
  static async create(options: LlamaEmbedderOptions): Promise<LlamaEmbedder> {
    const parsed = parseOptions(options);
    const { model, maxModelLen, maxNumSeqs, threads, pooling, cacheType, flashAttention } = parsed;
    const { native } = LlamaModel.nativeOf(model);
    const { file, memory } = model.info;
    if (memory !== 'attention')
      throw badModel(file, `is ${memory}, and vectors are made by models of attention`);
    const given = pooling ?? model.card.pooling;
    if (given === null || given === 'none')
      throw badModel(file, 'does not say how the vectors of tokens become one of a text: give pooling');
    const isOnGpu = hasGpu(model);
    if (!isOnGpu) checkMemory(parsed);
    let embedder: NativeEmbedder;
    try {
      embedder = await native.createEmbedder({
        batch: maxModelLen,
        sequences: maxNumSeqs,
        threads,
        pooling: POOLINGS.indexOf(given),
        typeK: TYPES[cacheType],
        typeV: TYPES[cacheType],
        flashAttention: FLASH[flashAttention],
        onGpu: isOnGpu,
      });
    } catch (cause) {
      const message = `llama.cpp could not make a context for texts of ${maxModelLen} tokens for ${file}: ${messageOf(cause)}`;
      throw new BlockstepError('ERR_BLOCKSTEP_NO_MEMORY', message, { cause });
    }
    endAtExit(embedder);
    return new LlamaEmbedder(model, embedder, parsed);
  }

  /**
   * Computes the raw vectors of texts. `Engine.embed` normalizes and shortens them.
   * @param texts token ids of each, at least one
   * @throws by rejection ERR_BLOCKSTEP_UNFIT for a text that is too long, ERR_BLOCKSTEP_BAD_ARG,
   * ERR_BLOCKSTEP_EXECUTOR with the message of llama.cpp, ERR_BLOCKSTEP_DISPOSED, the reason of the
   * signal
   */
  async embed(texts: readonly Int32Array[], signal: AbortSignal | null): Promise<readonly Float32Array[]> {
    for (const [i, text] of texts.entries()) {
      if (text.length === 0) throw badArg(`texts[${i}]`, text, 'a text of at least one token');
      if (text.length > this.#maxModelLen) {
        const message = `texts[${i}] has ${text.length} tokens, and the model takes at most ${this.#maxModelLen}`;
        throw new BlockstepError('ERR_BLOCKSTEP_UNFIT', message);
      }
      const wrong = text.find((token) => token < 0 || token >= this.#model.vocabSize);
      if (wrong !== undefined)
        throw badArg(
          `texts[${i}]`,
          wrong,
          `tokens of the vocabulary, from 0 to ${this.#model.vocabSize - 1}`,
        );
    }
    return await this.#queue.add(texts, signal);
  }

  /** @throws ERR_BLOCKSTEP_BAD_ARG: the executor generates no text */
  checkRequest(): void {
    throw new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', 'the model makes vectors of texts, and generates none');
  }

  /** Never called, since every request is refused. @throws ERR_BLOCKSTEP_INVARIANT */
  execute(): never {
    throw new BlockstepError('ERR_BLOCKSTEP_INVARIANT', 'a LlamaEmbedder computes no steps');
  }

  /** Interrupts the computation. Idempotent. */
  dispose(): void {
    this.#queue.dispose();
  }

  [INSPECT](depth: number, options: object): string {
    const { kind, dimensions, threads } = this;
    return showFacts('LlamaEmbedder', depth, options, {
      model: this.#model.architecture,
      kind,
      dimensions,
      threads,
    });
  }
}

/** Reads each option once. @throws ERR_BLOCKSTEP_BAD_ARG */
function parseOptions(options: LlamaEmbedderOptions) {
  if (!isObject(options)) throw badArg('options', options, 'an object');
  checkNames(options, OPTIONS);
  const { model, maxModelLen, maxNumSeqs = 16, threads = defaultThreads(), pooling } = options;
  const { cacheType, flashAttention } = options;
  const { library } = LlamaModel.nativeOf(model);
  const { contextLength } = model.info;
  return {
    model,
    maxModelLen:
      maxModelLen === undefined
        ? Math.min(contextLength, DEFAULT_LENGTH)
        : checkInteger('maxModelLen', maxModelLen, 1, contextLength),
    maxNumSeqs: checkInteger('maxNumSeqs', maxNumSeqs, 1, library.maxSequences),
    threads: checkInteger('threads', threads, 1, 1024),
    cacheType: checkOneOf('cacheType', cacheType, ['f16', 'f32']),
    flashAttention: checkOneOf('flashAttention', flashAttention, ['auto', 'on', 'off']),
    pooling: pooling === undefined ? null : checkOneOf('pooling', pooling, ['mean', 'cls', 'last']),
  };
}

/** @throws ERR_BLOCKSTEP_NO_MEMORY */
function checkMemory({ model, maxModelLen, maxNumSeqs }: ReturnType<typeof parseOptions>): void {
  const { perToken, work } = memoryNeeds(model.card, {
    maxNumSeqs,
    maxNumBatchedTokens: maxModelLen,
    cacheType: 'f16',
  });
  const needed = maxModelLen * perToken + work;
  const free = process.availableMemory();
  if (needed <= free) return;
  const message = `texts of ${maxModelLen} tokens for ${model.info.file} need ${inWords(needed)} to compute with, and ${inWords(free)} are free: make maxModelLen smaller`;
  throw new BlockstepError('ERR_BLOCKSTEP_NO_MEMORY', message);
}
