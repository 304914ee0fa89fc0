import { checkBoolean } from '../../base/checks.js';
import { badArgument, checkInteger, show } from '../../base/errors.js';
import { bindMethods } from '../../base/foreign/foreign-method.js';
import { checkNames, knownNames, type NamesOf } from '../../base/known-names.js';
import type { WorkerConnector } from '../../scheduler/connector/connector.js';
import { OPTION_WORDS, SCHEDULER_OPTION_NAMES } from '../../scheduler/options/option-names.js';
import type { SchedulerOptions } from '../../scheduler/options/options.js';
import type { DeviceExecutor, Executor, ExecutorPlan, SubmittedRequest } from '../executor/executor.js';
import { type ExecutorLimits, parseLimits } from '../executor/executor-limits.js';
import { type ExecutorPlace, parsePlace } from '../executor/executor-place.js';
import type { PlanTables } from '../executor/executor-tables.js';
import { SUBMIT_PLACES, type SubmitPlaces } from '../streams/submit-place.js';
import { bindWorkers, type WorkerMethods } from '../workers/worker-methods.js';

/** The longest delay of a platform timer, in milliseconds. */
const MAX_DELAY_MS = 2 ** 31 - 1;

/** This is long because a model of 8B takes minutes for a prompt of 8,192 tokens on a CPU. */
const EXECUTOR_TIMEOUT_MS = 600_000;
const STALL_STEPS = 1000;
const DRAIN_MS = 30_000;

/** Options of an engine: its scheduler's, its executor and workers, the bounds of its queue, and the limits of its health. */
export interface EngineOptions extends SchedulerOptions {
  /** Computes the steps. The engine owns the executor, and disposes it at its own end. */
  executor: Executor | DeviceExecutor;
  /**
   * The worker sides of `connector`, where the model runs. The reports of worker i come from rank
   * i. The engine owns the workers, and shuts them down at its own end. Default: none.
   */
  workers?: readonly WorkerConnector[];
  /**
   * Milliseconds of the engine's clock that the executor may take to answer a step. An executor
   * that takes longer counts as hung, and the engine breaks. 0 = no limit. Default 600,000, because
   * a long prompt takes minutes on a CPU.
   */
  executorTimeoutMs?: number;
  /**
   * The number of consecutive empty plans, with requests that could run, after which the engine is
   * unhealthy. Default 1,000.
   */
  stallSteps?: number;
  /**
   * The maximum number of requests that may wait for their first admission. Requests count that
   * were in no plan yet, including those submitted since the last step and those whose prefix is
   * being loaded. Preempted requests do not count, nor do sessions that were admitted once and wait
   * with another chunk. A `submit` beyond the bound is refused with ERR_BLOCKSTEP_OVERLOADED.
   * Default Infinity: no bound.
   */
  maxQueuedRequests?: number;
  /**
   * The maximum number of prompt tokens of the requests that `maxQueuedRequests` counts; for a
   * session, those of its first chunk. Default Infinity.
   */
  maxQueuedTokens?: number;
  /**
   * For which requests the stack of `submit` is captured, for the stack of their errors. A capture
   * costs more than all else of a submission. `some`, the default: for all requests up to 1,000 a
   * second, and for one in 16 beyond. `all`, `none`.
   */
  submitPlaces?: SubmitPlaces;
}

/** The names of all options of an engine. */
export const ENGINE_OPTION_NAMES: NamesOf<EngineOptions> = {
  ...SCHEDULER_OPTION_NAMES,
  executor: true,
  workers: true,
  executorTimeoutMs: true,
  stallSteps: true,
  maxQueuedRequests: true,
  maxQueuedTokens: true,
  submitPlaces: true,
};

const ENGINE_OPTIONS = knownNames<EngineOptions>('the options of an Engine', ENGINE_OPTION_NAMES, {
  ...OPTION_WORDS,
  model: 'did you mean executor?',
  drainMs: 'it is an option of shutdown',
});

const SHUTDOWN_OPTIONS = knownNames<ShutdownOptions>(
  'the options of shutdown',
  { drainMs: true },
  { timeoutMs: 'did you mean drainMs?', timeout: 'did you mean drainMs?', drain: 'did you mean drainMs?' },
);

/**
 * The maximum number of requests, and of their prompt tokens, that may wait for their first
 * admission; Infinity = no bound.
 */
export interface QueueBounds {
  readonly maxQueuedRequests: number;
  readonly maxQueuedTokens: number;
}

/** The engine's own options, checked, each read once. */
export interface EngineConfig extends QueueBounds {
  readonly execute: (plan: ExecutorPlan, tables: PlanTables | null) => unknown;
  readonly disposeExecutor: (() => unknown) | null;
  readonly requestsFinished: ((handles: readonly number[]) => unknown) | null;
  readonly checkRequest: ((request: SubmittedRequest) => unknown) | null;
  readonly embed: ((texts: readonly Int32Array[], signal: AbortSignal | null) => unknown) | null;
  readonly limits: ExecutorLimits;
  readonly watchesBlocks: boolean;
  readonly usesTables: boolean;
  /** The GPU and stream of the executor; null = the host. */
  readonly place: ExecutorPlace | null;
  readonly executorTimeoutMs: number;
  readonly stallSteps: number;
  readonly submitPlaces: SubmitPlaces;
  readonly workers: readonly WorkerMethods[];
}

/** Options of `Engine.shutdown`. */
export interface ShutdownOptions {
  /**
   * Milliseconds of the engine's clock during which unfinished requests may still end, 0 to 2^31 -
   * 1. Default 30,000.
   */
  drainMs?: number;
}

/** Checks the engine's own options. @throws ERR_BLOCKSTEP_BAD_ARG naming the option, its value and the expected value */
export function parseEngineOptions(options: EngineOptions): EngineConfig {
  if (typeof options !== 'object' || options === null)
    throw badArgument('options', show(options), 'an object');
  checkNames(options, ENGINE_OPTIONS);
  const {
    executor,
    executorTimeoutMs = EXECUTOR_TIMEOUT_MS,
    stallSteps = STALL_STEPS,
    workers = [],
    maxQueuedRequests,
    maxQueuedTokens,
    submitPlaces = 'some',
  } = options;
  const bound = bindWorkers(workers);
  if (bound.length > 0 && (options.connector ?? null) === null)
    throw badArgument('workers', `${bound.length} workers`, 'empty without a connector');
  return Object.freeze({
    ...parseExecutor(executor),
    executorTimeoutMs: checkInteger('executorTimeoutMs', executorTimeoutMs, 0, MAX_DELAY_MS),
    stallSteps: checkInteger('stallSteps', stallSteps, 1, 2 ** 30),
    maxQueuedRequests: parseBound('maxQueuedRequests', maxQueuedRequests),
    maxQueuedTokens: parseBound('maxQueuedTokens', maxQueuedTokens),
    submitPlaces: parseSubmitPlaces(submitPlaces),
    workers: bound,
  });
}

/** Checks the options of a shutdown. @returns `drainMs`, in milliseconds @throws ERR_BLOCKSTEP_BAD_ARG */
export function parseShutdownOptions(options: unknown): number {
  if (typeof options !== 'object' || options === null)
    throw badArgument('options', show(options), 'an object');
  checkNames(options, SHUTDOWN_OPTIONS);
  const { drainMs = DRAIN_MS } = options as ShutdownOptions;
  return checkInteger('drainMs', drainMs, 0, MAX_DELAY_MS);
}

/** @throws ERR_BLOCKSTEP_BAD_ARG */
function parseSubmitPlaces(value: unknown): SubmitPlaces {
  if (SUBMIT_PLACES.includes(value as SubmitPlaces)) return value as SubmitPlaces;
  throw badArgument('submitPlaces', show(value), `one of ${SUBMIT_PLACES.join(', ')}`);
}

/** @throws ERR_BLOCKSTEP_BAD_ARG */
function parseBound(name: keyof QueueBounds, value: unknown): number {
  if (value === undefined || value === Number.POSITIVE_INFINITY) return Number.POSITIVE_INFINITY;
  return checkInteger(name, value, 1, 2 ** 31 - 1);
}

function parseExecutor(
  executor: unknown,
): Pick<
  EngineConfig,
  | 'execute'
  | 'disposeExecutor'
  | 'requestsFinished'
  | 'checkRequest'
  | 'embed'
  | 'limits'
  | 'watchesBlocks'
  | 'usesTables'
  | 'place'
> {
  const expected = 'an object with a function execute';
  if (typeof executor !== 'object' || executor === null)
    throw badArgument('executor', show(executor), expected);
  const { execute, dispose, requestsFinished, limits, usesTables = true } = executor as DeviceExecutor;
  const { watchesBlocks = false, device, stream, embed } = executor as DeviceExecutor;
  if (typeof execute !== 'function') throw badArgument('executor.execute', show(execute), 'a function');
  if (dispose !== undefined && typeof dispose !== 'function') {
    throw badArgument('executor.dispose', show(dispose), 'a function');
  }
  if (requestsFinished !== undefined && typeof requestsFinished !== 'function')
    throw badArgument('executor.requestsFinished', show(requestsFinished), 'a function');
  if (embed !== undefined && typeof embed !== 'function')
    throw badArgument('executor.embed', show(embed), 'a function');
  if (typeof usesTables !== 'boolean')
    throw badArgument('executor.usesTables', show(usesTables), 'a boolean');
  return {
    execute: (plan, tables) => Reflect.apply(execute, executor, [plan, tables]) as unknown,
    disposeExecutor: dispose === undefined ? null : () => Reflect.apply(dispose, executor, []) as unknown,
    requestsFinished:
      requestsFinished === undefined
        ? null
        : (handles) => Reflect.apply(requestsFinished, executor, [handles]) as unknown,
    checkRequest: bindMethods('executor', executor, [], ['checkRequest']).checkRequest ?? null,
    embed:
      embed === undefined
        ? null
        : (texts, signal) => Reflect.apply(embed, executor, [texts, signal]) as unknown,
    limits: parseLimits(limits),
    watchesBlocks: checkBoolean('executor.watchesBlocks', watchesBlocks),
    usesTables,
    place: parsePlace(device, stream),
  };
}
