import { badArgument, show } from '../base/errors.js';
import { knownNames } from '../base/known-names.js';
import { REQUEST_FIELDS } from '../scheduler/calls/request-names.js';
import type { RequestResult } from './streams/outputs.js';
import { type SubmitInput, type SubmitOptions, takeSignal } from './streams/submission.js';

/** A prompt alone, or a request with what it does not share with the others. Sessions (`resumable`) are not for batches. */
export type GenerateInput = SubmitInput['prompt'] | (Partial<SubmitInput> & Pick<SubmitInput, 'prompt'>);

/** Prompts one after the other: an array, a generator, the lines of a file. It is read only as far as the engine gets. */
export type GenerateSource = Iterable<GenerateInput> | AsyncIterable<GenerateInput>;

/** Fields that all requests of a batch can have in common. */
const SHARED = {
  maxTokens: true,
  minTokens: true,
  eosTokenId: true,
  ignoreEos: true,
  stopTokenIds: true,
  priority: true,
  cacheSalt: true,
  adapter: true,
  timeoutMs: true,
  params: true,
} as const satisfies { [field in keyof SubmitInput]?: true };

/**
 * What the requests of a batch have in common, where they do not say otherwise, and how the batch goes. The `signal` aborts all of
 * them. With policy `priority` only those are ordered that are in the engine at the same time.
 */
export interface GenerateOptions extends SubmitOptions, Partial<Pick<SubmitInput, keyof typeof SHARED>> {
  /**
   * What a request that is refused or fails means. `keep` (the default): it is in the results, and the others go on. `throw`: the
   * others are aborted, and the promise rejects with its error.
   */
  onError?: 'keep' | 'throw';
  /** Called after each request that has ended. What it throws ends the batch. */
  onProgress?: (progress: GenerateProgress) => void;
}

const GENERATE_OPTIONS = knownNames<GenerateOptions>(
  'the options of generate',
  { ...SHARED, signal: true, onError: true, onProgress: true },
  { ...Object.fromEntries(REQUEST_FIELDS.words), prompt: 'prompts come first, in front of the options' },
);

/** Those with which every result is that of a request which did not fail. */
export interface ThrowingGenerateOptions extends GenerateOptions {
  onError: 'throw';
}

export interface GenerateProgress {
  /** Requests that have ended, the failed ones included. */
  readonly done: number;
  readonly failed: number;
  /** Requests in all; null as long as that is not known, since the prompts are no array and have not ended. */
  readonly total: number | null;
  /** Tokens that those which are done have generated, but for the failed ones. */
  readonly tokens: number;
}

/** A request of a batch that was refused or failed, or was aborted with a reason. */
export interface GenerateFailure {
  /** Null if it was refused. */
  readonly id: string | null;
  readonly finishReason: 'error';
  /** What its readers would have been rejected with, or what `submit` threw. */
  readonly error: unknown;
}

/**
 * What became of one prompt: `finishReason` is `error` if it was refused or failed. So it is for every prompt that comes after the
 * engine broke or was shut down.
 */
export type GenerateResult = RequestResult | GenerateFailure;

/** The options, checked, each read once. */
export interface TakenGenerateOptions {
  readonly shared: Partial<SubmitInput>;
  readonly signal: AbortSignal | null;
  readonly throws: boolean;
  readonly onProgress: ((progress: GenerateProgress) => void) | null;
}

/** @throws ERR_BLOCKSTEP_BAD_ARG */
export function takeGenerateOptions(options: GenerateOptions): TakenGenerateOptions {
  const signal = takeSignal(options, GENERATE_OPTIONS);
  const { onError = 'keep', onProgress = null } = options;
  if (onError !== 'keep' && onError !== 'throw')
    throw badArgument('onError', show(onError), "'keep' or 'throw'");
  if (onProgress !== null && typeof onProgress !== 'function')
    throw badArgument('onProgress', show(onProgress), 'a function');
  const shared: Record<string, unknown> = {};
  for (const name of Object.keys(SHARED) as (keyof typeof SHARED)[]) {
    const value = options[name];
    if (value !== undefined) shared[name] = value;
  }
  return { shared, signal, throws: onError === 'throw', onProgress };
}

/**
 * The iterator of the prompts, and how many there are if that is known.
 * @throws ERR_BLOCKSTEP_BAD_ARG, also for one prompt alone: its tokens could be taken for prompts
 */
export function takeSource(prompts: GenerateSource): {
  source: Iterator<GenerateInput> | AsyncIterator<GenerateInput>;
  total: number | null;
} {
  const expected = 'an array, iterable or async iterable of prompts; one prompt is [prompt]';
  if (typeof prompts !== 'object' || prompts === null || ArrayBuffer.isView(prompts))
    throw badArgument('prompts', show(prompts), expected);
  const both = prompts as Partial<Iterable<GenerateInput> & AsyncIterable<GenerateInput>>;
  const source = both[Symbol.asyncIterator]?.() ?? both[Symbol.iterator]?.();
  if (source === undefined) throw badArgument('prompts', show(prompts), expected);
  return { source, total: Array.isArray(prompts) ? prompts.length : null };
}
