import { badArg, checkBoolean, isList, isObject } from '../../base/checks.js';
import { checkInteger } from '../../base/errors.js';
import { checkNames, knownNames } from '../../base/known-names.js';
import { Engine } from '../../engine/engine.js';
import { type ChatMessage, plainChatPrompt } from '../api/chat-message.js';
import type { RequestBounds } from '../api/generation-request.js';
import { type HeededSampling, SAMPLING_NAMES } from '../api/sampling.js';
import type { ServedModel } from '../api/served-model.js';
import { o200k, type Vocabulary } from '../text/vocabulary.js';

/** What clients see of the model behind an engine. */
export interface ModelOptions {
  /** The name by which clients ask for it. */
  id: string;
  /** Default: o200k. */
  vocabulary?: Vocabulary;
  /** Makes the prompt of a chat, as tokens; at its end the model answers. Default: a line `role: text` for each message. */
  chatPrompt?: (messages: readonly ChatMessage[], vocabulary: Vocabulary) => Int32Array;
  /**
   * The parameters of sampling that the executor heeds; it finds them in `ExecutorRequest.params`, under these names. Others are refused,
   * unless they ask for nothing. `ignore`: all are taken, and none is heeded, for an executor whose texts mean nothing. Default: none, as
   * for an executor that always takes the most likely token.
   */
  sampling?: HeededSampling;
}

/** Options of the server of an engine. */
export interface ServeOptions {
  /** The engine. The server runs it (`Engine.run`) unless it runs. */
  engine: Engine;
  model: ModelOptions;
  /** Keys of which a client must show one, as `Authorization: Bearer KEY`, except for `/health` and `/ping`. Default: none. */
  apiKeys?: readonly string[];
  /** Most bytes of a body. Default 8 MiB. */
  maxBodyBytes?: number;
  /** Most choices of a request: `n` times its prompts. Default 128. */
  maxChoices?: number;
  /** Whether clients may pause, resume and reset the engine, and abort requests of others. Default true. */
  control?: boolean;
  /** Whether there are metrics for Prometheus, at `/metrics`. Default true. */
  metrics?: boolean;
  /** Whether there is a page that shows all this, at `/`. Default true. */
  page?: boolean;
  /**
   * Tokens of a chunk of a stream (vLLM `--stream-interval`): more of them cost less, and come later. The first token always comes at once.
   * Default 1.
   */
  streamInterval?: number;
  /** Milliseconds that unfinished requests are given when the server closes. Default 30,000. */
  drainMs?: number;
  /** Whether the end of the server is the end of the engine. Default true. */
  endsEngine?: boolean;
  /** Milliseconds without a step, while requests wait for one, after which `/health` answers 503. Default 120,000; 0 = never. */
  wedgedMs?: number;
}

const OPTIONS = knownNames<ServeOptions>('the options of a server', {
  engine: true,
  model: true,
  apiKeys: true,
  maxBodyBytes: true,
  maxChoices: true,
  control: true,
  metrics: true,
  page: true,
  streamInterval: true,
  drainMs: true,
  endsEngine: true,
  wedgedMs: true,
});
const MODEL_OPTIONS = knownNames<ModelOptions>(
  'model',
  { id: true, vocabulary: true, chatPrompt: true, sampling: true },
  {
    name: 'did you mean id?',
    tokenizer: 'did you mean vocabulary?',
    chatTemplate: 'did you mean chatPrompt?',
  },
);
const MAX_MS = 2 ** 31 - 1;

/** The options of a server, checked. */
export interface ServeSettings extends RequestBounds {
  readonly engine: Engine;
  readonly model: ServedModel;
  readonly apiKeys: readonly string[];
  readonly maxBodyBytes: number;
  readonly control: boolean;
  readonly metrics: boolean;
  readonly page: boolean;
  readonly streamInterval: number;
  readonly drainMs: number;
  readonly endsEngine: boolean;
  readonly wedgedMs: number;
}

/** Checks the options. @throws ERR_BLOCKSTEP_BAD_ARG */
export function takeServeOptions(options: unknown): ServeSettings {
  if (!isObject(options)) throw badArg('options', options, 'an object');
  checkNames(options, OPTIONS);
  const {
    engine,
    model,
    apiKeys = [],
    maxBodyBytes = 2 ** 23,
    maxChoices = 128,
  } = options as unknown as ServeOptions;
  const {
    control = true,
    metrics = true,
    page = true,
    streamInterval = 1,
    drainMs = 30_000,
    endsEngine = true,
    wedgedMs = 120_000,
  } = options as unknown as ServeOptions;
  if (!(engine instanceof Engine)) throw badArg('engine', engine, 'an Engine');
  if (!isList(apiKeys, (key) => typeof key === 'string' && key !== ''))
    throw badArg('apiKeys', apiKeys, 'a list of strings that are not empty');
  return {
    engine,
    model: takeModel(model, engine),
    apiKeys: [...apiKeys] as string[],
    maxBodyBytes: checkInteger('maxBodyBytes', maxBodyBytes, 1, 2 ** 30),
    maxChoices: checkInteger('maxChoices', maxChoices, 1, 2 ** 16),
    control: checkBoolean('control', control),
    metrics: checkBoolean('metrics', metrics),
    page: checkBoolean('page', page),
    streamInterval: checkInteger('streamInterval', streamInterval, 1, 2 ** 20),
    drainMs: checkInteger('drainMs', drainMs, 0, MAX_MS),
    endsEngine: checkBoolean('endsEngine', endsEngine),
    wedgedMs: checkInteger('wedgedMs', wedgedMs, 0, MAX_MS),
  };
}

function takeModel(model: unknown, engine: Engine): ServedModel {
  if (!isObject(model)) throw badArg('model', model, 'an object with the id of the model');
  checkNames(model, MODEL_OPTIONS);
  const {
    id,
    vocabulary = o200k,
    chatPrompt = plainChatPrompt,
    sampling = [],
  } = model as unknown as ModelOptions;
  if (typeof id !== 'string' || !/^[^\p{Cc}\p{Cs}]{1,200}$/u.test(id))
    throw badArg('model.id', id, 'a name of 1 to 200 characters without control characters');
  if (!isVocabulary(vocabulary))
    throw badArg(
      'model.vocabulary',
      vocabulary,
      'a Vocabulary: name, size, endOfText, encode, textOf, bytesOf',
    );
  if (typeof chatPrompt !== 'function') throw badArg('model.chatPrompt', chatPrompt, 'a function');
  if (sampling !== 'ignore' && !isList(sampling, (name) => SAMPLING_NAMES.includes(name as never)))
    throw badArg(
      'model.sampling',
      sampling,
      `"ignore", or a list of names among ${SAMPLING_NAMES.join(', ')}`,
    );
  const { maxModelLen } = engine.scheduler.config;
  return { id, vocabulary, chatPrompt, sampling, maxModelLen, created: Math.floor(Date.now() / 1000) };
}

function isVocabulary(value: unknown): boolean {
  if (!isObject(value)) return false;
  const { size, endOfText, encode, textOf, bytesOf } = value as unknown as Vocabulary;
  const functions = [encode, textOf, bytesOf];
  return (
    Number.isInteger(size) &&
    Number.isInteger(endOfText) &&
    functions.every((each) => typeof each === 'function')
  );
}
