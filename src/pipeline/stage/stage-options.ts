import { badArg, isObject } from '../../base/checks.js';
import { badArgument, checkInteger, show } from '../../base/errors.js';
import { checkNames, knownNames } from '../../base/known-names.js';
import type { EngineOptions } from '../../engine/state/options.js';
import type { SubmitInput } from '../../engine/streams/submission.js';
import type { ChunkInput } from '../../scheduler/request/session.js';
import { MOST_AHEAD } from '../transport/chunk.js';

/** A chunk of the previous stage, for `StageOptions.input`. */
export interface StageChunk {
  /** The client's id of the request. */
  readonly id: string;
  /** Number of the chunk within its request, from 1. */
  readonly number: number;
  /** Token ids; the caller may keep them. */
  readonly tokens: Int32Array;
  /** The previous stage's extra value for each token, such as hidden states; null = none. */
  readonly extras: readonly unknown[] | null;
  /** Whether the chunk is the last one. The last chunk follows all tokens and has none. */
  readonly isLast: boolean;
}

/**
 * Fields of a request. The client may set them for one stage, or a stage for all of its requests.
 */
export type StageFields = Partial<Omit<SubmitInput, 'id' | 'prompt' | 'resumable' | 'grammar'>>;

/** One stage of a pipeline: an engine, and the conversion of chunks to its input. */
export interface StageOptions {
  /** The stage's name, unique in the pipeline. */
  name: string;
  /**
   * `ar` (default): autoregressive. Each chunk continues the text so far, and is answered by up to
   * `maxTokens` tokens. `generation`: `executor` computes each chunk separately and in one step. It
   * answers one token, with its result as the token's extra value. No KV is kept between chunks.
   */
  kind?: 'ar' | 'generation';
  /** The stage's engine. The stage makes it, drives it and ends it. */
  engine: EngineOptions;
  /**
   * Fields of every request in this stage, such as `maxTokens` and `eosTokenId`. The client's
   * fields override them.
   */
  defaults?: StageFields;
  /**
   * Converts a chunk of the previous stage to the next input: token ids, with optional stop
   * conditions and `params`. Null, or no token ids: the chunk has nothing to compute. Default: the
   * chunk's tokens. A throw fails the request.
   */
  input?: (chunk: StageChunk) => ChunkInput | null;
  /**
   * Number of tokens in a chunk for the next stage. The end of an answer ends a chunk too. Default
   * 16.
   */
  chunkTokens?: number;
  /**
   * Maximum number of chunks of a request that the next stage has not computed, 1 to 1,024. Further
   * tokens wait here. Default 4.
   */
  maxChunksAhead?: number;
  /**
   * Maximum milliseconds that a request may wait for its next chunk, or for its chunks to be taken;
   * 0 = no limit. Default 600,000.
   */
  stallMs?: number;
}

/** Checked `StageOptions`. */
export interface StageConfig extends Required<StageOptions> {}

const OPTIONS = knownNames<StageOptions>(
  'the options of a stage',
  {
    name: true,
    kind: true,
    engine: true,
    defaults: true,
    input: true,
    chunkTokens: true,
    maxChunksAhead: true,
    stallMs: true,
  },
  { executor: 'it is an option of engine', scheduler: 'did you mean engine?' },
);
const FIELDS = knownNames<StageFields>(
  'the fields of a stage',
  {
    maxTokens: true,
    minTokens: true,
    eosTokenId: true,
    ignoreEos: true,
    stopTokenIds: true,
    priority: true,
    arrivalTime: true,
    cacheSalt: true,
    adapter: true,
    timeoutMs: true,
    transferParams: true,
    params: true,
  },
  {
    prompt: 'a stage is given its prompt by the stage before',
    id: 'a request has one id in all stages',
    resumable: 'the pipeline decides it',
    grammar: 'grammars are not supported in pipelines',
  },
);
const MAX_MS = 2 ** 31 - 1;
/** The limit leaves room for a request's id and key in a name. */
const MAX_STAGE_NAME = 128;

/**
 * Checks a stage's own options. The engine's options are checked when the engine is made. @throws
 * ERR_BLOCKSTEP_BAD_ARG
 */
export function parseStageOptions(options: unknown): StageConfig {
  if (!isObject(options)) throw badArg('stage', options, 'an object');
  checkNames(options, OPTIONS);
  const { name, kind = 'ar', engine, defaults = {}, input = asItIs } = options as unknown as StageOptions;
  const { chunkTokens = 16, maxChunksAhead = 4, stallMs = 600_000 } = options as unknown as StageOptions;
  checkStageName(name);
  const of = `stage ${name}`;
  if (kind !== 'ar' && kind !== 'generation') throw badArg(`kind of ${of}`, kind, "'ar' or 'generation'");
  if (!isObject(engine)) throw badArg(`engine of ${of}`, engine, 'the options of an Engine');
  checkDeadlines(of, engine.deadlines);
  if (kind === 'generation') checkComputesAtOnce(of, engine);
  if (kind === 'generation' && (defaults?.maxTokens ?? 1) !== 1)
    throw badArgument(
      `maxTokens of ${of}`,
      show(defaults.maxTokens),
      '1 or absent, since a chunk is one step',
    );
  if (typeof input !== 'function') throw badArg(`input of ${of}`, input, 'a function');
  return {
    name,
    kind,
    engine,
    defaults: parseStageFields(`defaults of ${of}`, defaults),
    input,
    chunkTokens: checkInteger(`chunkTokens of ${of}`, chunkTokens, 1, 2 ** 20),
    maxChunksAhead: checkInteger(`maxChunksAhead of ${of}`, maxChunksAhead, 1, MOST_AHEAD),
    stallMs: checkInteger(`stallMs of ${of}`, stallMs, 0, MAX_MS),
  };
}

/** @throws ERR_BLOCKSTEP_BAD_ARG */
export function checkStageName(name: unknown): asserts name is string {
  if (typeof name === 'string' && name.length > 0 && name.length <= MAX_STAGE_NAME && !name.includes('/'))
    return;
  throw badArg('name of a stage', name, `a string of 1 to ${MAX_STAGE_NAME} characters without a slash`);
}

/** Checks the names of the fields; the scheduler of the stage checks their values. @throws ERR_BLOCKSTEP_BAD_ARG */
export function parseStageFields(name: string, fields: unknown): StageFields {
  if (!isObject(fields)) throw badArgument(name, show(fields), 'an object');
  checkNames(fields, FIELDS);
  return { ...fields };
}

/** Options that a generation stage sets itself. */
export const COMPUTES_AT_ONCE = { enableChunkedPrefill: false, enablePrefixCaching: false } as const;

function checkDeadlines(of: string, deadlines: unknown): void {
  if (deadlines === undefined) return;
  if (!isObject(deadlines)) throw badArg(`deadlines of the engine of ${of}`, deadlines, 'an object');
  const { streamingInput = 0 } = deadlines;
  if (streamingInput === 0) return;
  const expected = '0 or absent, since stallMs of the stage limits the waits for chunks';
  throw badArgument(`deadlines.streamingInput of the engine of ${of}`, show(streamingInput), expected);
}

function checkComputesAtOnce(of: string, engine: EngineOptions): void {
  for (const name of Object.keys(COMPUTES_AT_ONCE) as (keyof typeof COMPUTES_AT_ONCE)[]) {
    if (engine[name] !== undefined && engine[name] !== false)
      throw badArgument(
        `${name} of ${of}`,
        show(engine[name]),
        'false or absent, since it computes whole chunks',
      );
  }
}

function asItIs({ tokens }: StageChunk): ChunkInput | null {
  return tokens.length === 0 ? null : { prompt: tokens };
}
