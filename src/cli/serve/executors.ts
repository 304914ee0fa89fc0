// The executors of the server: a model, reference, simulated, a module of the user's.
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { isObject } from '../../base/checks.js';
import { BlockstepError, describeError, show } from '../../base/errors.js';
import type { EngineOptions } from '../../engine/state/options.js';
import type { CostModel } from '../../executors/cost-model/cost-model.js';
import { PROFILES } from '../../executors/cost-model/profiles.js';
import type { SchedulerOptions } from '../../scheduler/options/options.js';
import { resolveOptions } from '../../scheduler/options/resolve-options.js';
import type { ModelOptions } from '../../serve/model/model-options.js';
import type { Vocabulary } from '../../serve/text/vocabulary.js';
import type { Io } from '../terminal/io.js';
import { namedCost } from '../terminal/named-cost.js';
import type { ServedExecutor } from './executor/served-executor.js';
import type { ServeFlags } from './serve-flags.js';

/**
 * The argument of an executor's module: the checked options of the scheduler, and the server's
 * vocabulary.
 */
export interface ModuleInput {
  readonly options: SchedulerOptions & { readonly maxModelLen: number };
  readonly vocabulary: Vocabulary;
}

/** The result of an executor's module: parts of the engine, and the client's view of the model. */
export interface ModuleOutput extends Pick<EngineOptions, 'executor' | 'connector' | 'workers'> {
  model?: Partial<ModelOptions>;
}

/**
 * Makes the executor of the command line.
 * @throws by rejection ERR_BLOCKSTEP_BAD_FILE for an unusable module; the errors of loading a model
 */
export async function makeExecutor(
  flags: ServeFlags,
  options: SchedulerOptions & { readonly maxModelLen: number },
  io: Io,
): Promise<ServedExecutor> {
  if (flags.model !== undefined) {
    // Only a served model needs llama.cpp.
    const { modelFile } = await import('./executor/model-file.js');
    const { modelExecutor } = await import('./executor/model-executor.js');
    return modelExecutor(await modelFile(flags.model, io), flags, flags.givenOptions, io);
  }
  if (flags.executor === 'reference') return reference(flags, options);
  if (flags.executor === 'simulated') return simulated(flags, options);
  return ownModule(flags.executor, options);
}

/** A model has its own vocabulary, and does not need this one. */
const vocabularies = () => import('../../serve/text/vocabulary.js');

/** Printed once. Most clients send parameters that this executor accepts and ignores. */
const IGNORES =
  'Temperature and other parameters of sampling change nothing; x-blockstep-ignored in an answer names them.';

async function reference(
  { latencyMs, seed }: ServeFlags,
  options: SchedulerOptions,
): Promise<ServedExecutor> {
  const { o200k } = await vocabularies();
  const { ReferenceExecutor } = await import('../../executors/reference/reference-executor.js');
  const { hashSeed: _, ...sizes } = options;
  return {
    executor: new ReferenceExecutor({ ...sizes, seed, eosTokenId: o200k.endOfText, latencyMs }),
    model: { id: 'blockstep-reference', sampling: 'ignore' },
    notes: [
      `The reference executor is no language model: it continues a text with text that it has already seen. ${IGNORES}`,
    ],
  };
}

async function simulated(flags: ServeFlags, options: SchedulerOptions): Promise<ServedExecutor> {
  const { o200k } = await vocabularies();
  const { SimulatedExecutor } = await import('../../executors/cost-model/simulated-executor.js');
  const { profile, meanOutputTokens, acceptanceRate, seed } = flags;
  const { name, cost, measured } = namedCost(profile);
  const builtIn = Object.hasOwn(PROFILES, profile) ? PROFILES[profile] : null;
  const { maxNumSeqs, pipelineDepth, numSpeculativeTokens } = resolveOptions(options);
  return {
    executor: new SimulatedExecutor({
      model: builtIn === null ? cost : { ...builtIn.model, ...given(flags, builtIn.model) },
      maxNumSeqs,
      pipelineDepth,
      numSpeculativeTokens,
      vocabulary: plainWords(o200k),
      eosTokenId: o200k.endOfText,
      meanOutputTokens,
      acceptanceRate,
      seed,
    }),
    model: { id: name, sampling: 'ignore' },
    notes: [
      `A stand-in for ${builtIn?.what ?? name}: steps take the time that a cost model says, and texts are made up of words. ${IGNORES}`,
      ...(measured === null ? [] : [measured]),
    ],
  };
}

/** The figures of the cost model from the command line. */
function given(flags: ServeFlags, model: CostModel): Partial<CostModel> {
  const names = Object.keys(model) as (keyof CostModel)[];
  return Object.fromEntries(
    names.filter((name) => flags[name] !== undefined).map((name) => [name, flags[name]]),
  );
}

/** Tokens that are plain words after a space. */
function plainWords({ size, textOf }: Vocabulary): Int32Array {
  const words: number[] = [];
  for (let token = 0; token < size && words.length < 4096; token++) {
    if (/^ [a-z]{2,}$/.test(textOf(token) ?? '')) words.push(token);
  }
  return Int32Array.from(words);
}

async function ownModule(
  path: string,
  options: SchedulerOptions & { readonly maxModelLen: number },
): Promise<ServedExecutor> {
  const bad = (what: string, cause?: unknown): BlockstepError =>
    new BlockstepError('ERR_BLOCKSTEP_BAD_FILE', `the executor ${path} ${what}`, { cause });
  let make: unknown;
  try {
    ({ default: make } = (await import(pathToFileURL(resolve(path)).href)) as { default?: unknown });
  } catch (cause) {
    throw bad(`cannot be loaded: ${describeError(cause)}`, cause);
  }
  if (typeof make !== 'function')
    throw bad(`must have a default export that is a function, got ${show(make)}`);
  const { o200k } = await vocabularies();
  const made: unknown = await (make as (input: ModuleInput) => unknown)({ options, vocabulary: o200k });
  if (!isObject(made) || !isObject(made['executor']))
    throw bad(`must give { executor }, an object with an executor, got ${show(made)}`);
  const { executor, connector, workers, model } = made as unknown as ModuleOutput;
  return {
    executor,
    ...(connector && { connector }),
    ...(workers && { workers }),
    model: { id: 'my-model', ...model },
    notes: [],
  };
}
