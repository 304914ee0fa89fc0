// The options of a pipeline, and their checks.
import { badArg, isObject } from '../base/checks.js';
import { badArgument, checkInteger, show } from '../base/errors.js';
import { checkNames, knownNames } from '../base/known-names.js';
import {
  checkStageName,
  parseStageOptions,
  type StageConfig,
  type StageOptions,
} from './stage/stage-options.js';
import { MemoryTransport } from './transport/memory-transport.js';
import { checkTransport, type Transport } from './transport/transport.js';

/** A stage that another process serves (`StageServer`). */
export interface RemoteStage {
  /** The stage's name. */
  name: string;
  remote: true;
}

/** Options of a `Pipeline`. */
export interface PipelineOptions {
  /** The stages, first to last: at least one, with different names. */
  stages: readonly (StageOptions | RemoteStage)[];
  /**
   * Carries chunks and messages. The pipeline does not close it. Default: a `MemoryTransport`,
   * which connects only stages of this process.
   */
  transport?: Transport;
  /**
   * Maximum number of unfinished requests; more are refused with ERR_BLOCKSTEP_OVERLOADED. Default
   * Infinity.
   */
  maxRequests?: number;
  /** Milliseconds between two pings to remote stages. Default 1,000. */
  pingMs?: number;
  /** Milliseconds without an answer after which a stage counts as gone, and its requests fail. Default 10,000. */
  deadMs?: number;
  /** The clock, in milliseconds. The engines of the stages have their own (`engine.now`). Default `performance.now`. */
  now?: () => number;
}

/** Checked `PipelineOptions`. */
export interface PipelineConfig {
  readonly names: readonly string[];
  readonly stages: readonly (StageConfig | RemoteStage)[];
  readonly transport: Transport;
  readonly maxRequests: number;
  readonly pingMs: number;
  readonly deadMs: number;
  readonly now: () => number;
}

const OPTIONS = knownNames<PipelineOptions>(
  'the options of a Pipeline',
  { stages: true, transport: true, maxRequests: true, pingMs: true, deadMs: true, now: true },
  { stallMs: 'it is an option of a stage', engine: 'it is an option of a stage' },
);
const REMOTE = knownNames<RemoteStage>(
  'a remote stage',
  { name: true, remote: true },
  { engine: 'its own process has it' },
);
const MAX_STAGES = 64;
const MAX_MS = 2 ** 31 - 1;

/** @throws ERR_BLOCKSTEP_BAD_ARG */
export function parsePipelineOptions(options: unknown): PipelineConfig {
  if (!isObject(options)) throw badArg('options', options, 'an object');
  checkNames(options, OPTIONS);
  const {
    stages,
    transport,
    maxRequests,
    pingMs = 1000,
    deadMs = 10_000,
    now,
  } = options as unknown as PipelineOptions;
  if (!Array.isArray(stages) || stages.length === 0 || stages.length > MAX_STAGES)
    throw badArg('stages', stages, `an array of 1 to ${MAX_STAGES} stages`);
  const parsed = stages.map(parseStage);
  const names = parsed.map(({ name }) => name);
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) throw badArgument('stages', show(twice), 'stages with different names');
  const remote = parsed.find((stage) => 'remote' in stage);
  if (remote !== undefined && transport === undefined)
    throw badArgument('transport', 'none', `a transport that reaches the stage ${remote.name} elsewhere`);
  if (now !== undefined && typeof now !== 'function') throw badArg('now', now, 'a function');
  checkInteger('pingMs', pingMs, 1, MAX_MS);
  return {
    ...{ names, stages: parsed },
    transport: transport === undefined ? new MemoryTransport() : checkTransport(transport),
    maxRequests:
      maxRequests === undefined || maxRequests === Number.POSITIVE_INFINITY
        ? Number.POSITIVE_INFINITY
        : checkInteger('maxRequests', maxRequests, 1, 2 ** 31 - 1),
    ...{ pingMs, deadMs: checkInteger('deadMs', deadMs, pingMs, MAX_MS) },
    now: now ?? (() => performance.now()),
  };
}

function parseStage(stage: unknown): StageConfig | RemoteStage {
  if (!isObject(stage) || stage['remote'] === undefined) return parseStageOptions(stage);
  checkNames(stage, REMOTE);
  const { name, remote } = stage;
  checkStageName(name);
  if (remote !== true) throw badArg(`remote of stage ${name}`, remote, 'true, or absent');
  return { name, remote };
}
