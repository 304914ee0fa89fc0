import { badArg, checkBoolean, isList, isRecord } from '../../base/checks.js';
import { BlockstepError, checkInteger, describeError, show } from '../../base/errors.js';
import { knownNames } from '../../base/known-names.js';
import type { EngineState } from '../state/engine-state.js';
import { parseSignal } from '../streams/submission.js';
import type { Submitter } from './submit.js';

/** Options of `Engine.embed`. */
export interface EmbedOptions {
  /**
   * The length of each vector; the remaining dimensions are cut off. Meant for models that were
   * trained for this. Default: all.
   */
  readonly dimensions?: number;
  /**
   * Scales vectors to length 1, so that the dot product of two vectors measures the similarity of
   * their texts. Default true.
   */
  readonly normalize?: boolean;
  /**
   * Withdraws texts that are not computed yet; the promise is rejected with the signal's reason.
   */
  readonly signal?: AbortSignal;
}

const OPTIONS = knownNames<EmbedOptions>('the options of embed', {
  dimensions: true,
  normalize: true,
  signal: true,
});

/** Texts in progress at an executor that makes vectors of them. */
export class Embeddings {
  readonly #e: EngineState;
  readonly #submitter: Submitter;

  constructor(e: EngineState, submitter: Submitter) {
    this.#e = e;
    this.#submitter = submitter;
  }

  /** See `Engine.embed`. */
  async embed(texts: readonly ArrayLike<number>[], options: EmbedOptions): Promise<readonly Float32Array[]> {
    const e = this.#e;
    this.#submitter.checkOpen();
    const { embed, maxQueuedRequests } = e.config;
    if (embed === null)
      throw new BlockstepError(
        'ERR_BLOCKSTEP_BAD_ARG',
        'the executor makes no vectors of texts: it has no embed',
      );
    const { dimensions, normalize, signal } = parseOptions(options);
    const parsed = parseTexts(texts);
    signal?.throwIfAborted();
    if (e.embedding > 0 && e.embedding + parsed.length > maxQueuedRequests) {
      e.counters.overloads++;
      const message = `${e.embedding} texts wait for their vectors, and maxQueuedRequests is ${maxQueuedRequests}`;
      throw new BlockstepError('ERR_BLOCKSTEP_OVERLOADED', message, { retryAfterMs: null });
    }
    e.embedding += parsed.length;
    try {
      const vectors = readVectors(await embed(parsed, signal), parsed.length);
      return vectors.map((vector) => shaped(vector, dimensions, normalize));
    } catch (error) {
      if (error instanceof BlockstepError || error === signal?.reason) throw error;
      const message = `the executor's embed failed: ${describeError(error)}`;
      throw new BlockstepError('ERR_BLOCKSTEP_EXECUTOR', message, { cause: error });
    } finally {
      e.embedding -= parsed.length;
      // A shutdown may wait for this.
      if (!e.disposed) e.poke();
    }
  }
}

function parseOptions(options: EmbedOptions) {
  const signal = parseSignal(options, OPTIONS);
  const { dimensions, normalize = true } = options;
  return {
    dimensions: dimensions === undefined ? null : checkInteger('dimensions', dimensions, 1, 2 ** 20),
    normalize: checkBoolean('normalize', normalize),
    signal,
  };
}

/** Copies texts. @throws ERR_BLOCKSTEP_BAD_ARG */
function parseTexts(texts: readonly ArrayLike<number>[]): readonly Int32Array[] {
  if (!isList(texts, (text) => isRecord(text) && Number.isInteger(text['length'])))
    throw badArg('texts', texts, 'a list of texts, each as token ids');
  return texts.map((text, i) => {
    const tokens = Int32Array.from(text);
    for (let at = 0; at < tokens.length; at++)
      if (tokens[at] !== text[at] || tokens[at] < 0)
        throw badArg(`texts[${i}][${at}]`, text[at], 'a token id');
    return tokens;
  });
}

/** @throws ERR_BLOCKSTEP_EXECUTOR */
function readVectors(answer: unknown, count: number): readonly Float32Array[] {
  if (isList(answer, (vector) => vector instanceof Float32Array) && answer.length === count)
    return answer as Float32Array[];
  throw new BlockstepError(
    'ERR_BLOCKSTEP_EXECUTOR',
    `embed must answer ${count} vectors, got ${show(answer)}`,
  );
}

/**
 * @throws ERR_BLOCKSTEP_BAD_ARG for more dimensions than there are; ERR_BLOCKSTEP_EXECUTOR for a
 * value that is not a number
 */
function shaped(vector: Float32Array, dimensions: number | null, normalize: boolean): Float32Array {
  if (dimensions !== null && dimensions > vector.length)
    throw badArg('dimensions', dimensions, `at most ${vector.length}, which the model has`);
  const cut = vector.slice(0, dimensions ?? vector.length);
  const sum = cut.reduce((squares, each) => squares + each * each, 0);
  if (!Number.isFinite(sum))
    throw new BlockstepError('ERR_BLOCKSTEP_EXECUTOR', 'the vector of a text has values that are no numbers');
  if (normalize && sum > 0) for (let i = 0; i < cut.length; i++) cut[i] /= Math.sqrt(sum);
  return cut;
}
