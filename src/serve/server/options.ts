import { badArg, checkBoolean, isList, isObject } from '../../base/checks.js';
import { checkInteger } from '../../base/errors.js';
import { checkNames, knownNames } from '../../base/known-names.js';
import { Engine } from '../../engine/engine.js';
import type { RequestBounds } from '../api/generation-request.js';
import type { ServedModel } from '../api/served-model.js';
import { type ModelOptions, parseModel } from '../model/model-options.js';

/** Options for the server of an engine. */
export interface ServeOptions {
  /** The engine. The server runs it (`Engine.run`) unless it already runs. */
  engine: Engine;
  model: ModelOptions;
  /**
   * API keys. A client must send one of them, as `Authorization: Bearer KEY`, except to `/health`
   * and `/ping`. Default: none.
   */
  apiKeys?: readonly string[];
  /**
   * Host names by which clients reach the server, without a port. Without keys, the server answers
   * only under these names, IP addresses, `localhost` and this machine's name. The reason: a
   * stranger's page can let its own host name resolve to this server. Pages of these sites may send
   * requests, with or without a key. Default: none.
   */
  allowedHosts?: readonly string[];
  /** The maximum number of bytes of a body. Default 8 MiB. */
  maxBodyBytes?: number;
  /** The maximum number of choices of a request: `n` times its prompts. Default 128. */
  maxChoices?: number;
  /**
   * Whether clients may pause, resume and reset the engine, and abort requests of others. Default
   * true.
   */
  control?: boolean;
  /** Whether there are metrics for Prometheus, at `/metrics`. Default true. */
  metrics?: boolean;
  /** Whether there is a page that shows all this, at `/`. Default true. */
  page?: boolean;
  /**
   * Tokens per chunk of a stream (vLLM `--stream-interval`): larger chunks cost less, and come
   * later. The first token is always sent at once. Default 1.
   */
  streamInterval?: number;
  /** Whether the log includes prompts and answers. Default false. */
  logPrompts?: boolean;
  /**
   * The time that unfinished requests get when the server closes, in milliseconds. Default 30,000.
   */
  drainMs?: number;
  /** Whether closing the server shuts down the engine. Default true. */
  endsEngine?: boolean;
  /**
   * Milliseconds without a step, while requests wait for one, after which `/health` answers 503.
   * Default 120,000; 0 = never.
   */
  wedgedMs?: number;
}

const OPTIONS = knownNames<ServeOptions>('the options of a server', {
  engine: true,
  model: true,
  apiKeys: true,
  allowedHosts: true,
  maxBodyBytes: true,
  maxChoices: true,
  control: true,
  metrics: true,
  page: true,
  streamInterval: true,
  logPrompts: true,
  drainMs: true,
  endsEngine: true,
  wedgedMs: true,
});
const HOST_NAME = /^[\w-]+(\.[\w-]+)*$/;
const MAX_MS = 2 ** 31 - 1;

/** The options of a server, validated. */
export interface ServeSettings extends RequestBounds {
  readonly engine: Engine;
  readonly model: ServedModel;
  readonly apiKeys: readonly string[];
  /** In lower case. */
  readonly allowedHosts: readonly string[];
  readonly maxBodyBytes: number;
  readonly control: boolean;
  readonly metrics: boolean;
  readonly page: boolean;
  readonly streamInterval: number;
  readonly logPrompts: boolean;
  readonly drainMs: number;
  readonly endsEngine: boolean;
  readonly wedgedMs: number;
}

/** Checks the options. @throws by rejection ERR_BLOCKSTEP_BAD_ARG */
export async function parseServeOptions(options: unknown): Promise<ServeSettings> {
  if (!isObject(options)) throw badArg('options', options, 'an object');
  checkNames(options, OPTIONS);
  const {
    engine,
    model,
    apiKeys = [],
    allowedHosts = [],
    maxBodyBytes = 2 ** 23,
    maxChoices = 128,
  } = options as unknown as ServeOptions;
  const {
    control = true,
    metrics = true,
    page = true,
    streamInterval = 1,
    logPrompts = false,
    drainMs = 30_000,
    endsEngine = true,
    wedgedMs = 120_000,
  } = options as unknown as ServeOptions;
  if (!(engine instanceof Engine)) throw badArg('engine', engine, 'an Engine');
  if (!isList(apiKeys, (key) => typeof key === 'string' && key !== ''))
    throw badArg('apiKeys', apiKeys, 'a list of strings that are not empty');
  if (!isList(allowedHosts, (name) => typeof name === 'string' && HOST_NAME.test(name)))
    throw badArg('allowedHosts', allowedHosts, 'a list of names as "llm.example.com", without a port');
  return {
    engine,
    model: await parseModel(model, engine.scheduler.config.maxModelLen),
    apiKeys: [...apiKeys] as string[],
    allowedHosts: allowedHosts.map((name) => name.toLowerCase()),
    maxBodyBytes: checkInteger('maxBodyBytes', maxBodyBytes, 1, 2 ** 30),
    // More choices than the queue can hold would never be accepted, however long their client
    // waits.
    maxChoices: Math.min(checkInteger('maxChoices', maxChoices, 1, 2 ** 16), engine.maxQueuedRequests),
    control: checkBoolean('control', control),
    metrics: checkBoolean('metrics', metrics),
    page: checkBoolean('page', page),
    streamInterval: checkInteger('streamInterval', streamInterval, 1, 2 ** 20),
    logPrompts: checkBoolean('logPrompts', logPrompts),
    drainMs: checkInteger('drainMs', drainMs, 0, MAX_MS),
    endsEngine: checkBoolean('endsEngine', endsEngine),
    wedgedMs: checkInteger('wedgedMs', wedgedMs, 0, MAX_MS),
  };
}
