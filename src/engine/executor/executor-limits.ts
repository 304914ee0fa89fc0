import { badArg, checkBoolean, isObject } from '../../base/checks.js';
import { badArgument, checkInteger, show } from '../../base/errors.js';
import { checkNames, knownNames } from '../../base/known-names.js';
import type { KvGroupOptions } from '../../scheduler/options/kv-groups.js';
import { DEFAULT_LIMITS, type SchedulerOptions } from '../../scheduler/options/options.js';

/**
 * The sizes that an executor was made for, and its maxima. An absent limit means no limit. An
 * engine option that was not given follows the limit.
 */
export interface ExecutorLimits {
  /** Number of blocks of the KV pool: exactly the number that the executor has memory for. */
  readonly numBlocks?: number;
  /** Tokens per block, exactly. */
  readonly blockSize?: number;
  /**
   * The KV cache groups, exactly and in their order, in the form of the engine's option. Null: no
   * groups, which means one list of blocks for each request. An executor without this limit runs
   * with any groups. `eagle` of a group is ignored.
   */
  readonly kvGroups?: readonly KvGroupOptions[] | null;
  /** The maximum number of requests in one plan. */
  readonly maxNumSeqs?: number;
  /** The maximum number of tokens in one plan. */
  readonly maxNumBatchedTokens?: number;
  /** The maximum number of tokens of one request, prompt and output together. */
  readonly maxModelLen?: number;
  /**
   * true: `maxNumSeqs`, `maxNumBatchedTokens` and `maxModelLen` must equal the engine's exactly,
   * because the executor reads tables of one shape only. Default false.
   */
  readonly fixedShape?: boolean;
  /** The maximum number of steps in flight. */
  readonly pipelineDepth?: number;
  /** The maximum number of draft tokens of one request in one step. */
  readonly numSpeculativeTokens?: number;
  /**
   * Whether the KV of single positions can be discarded and shared. A recurrent model sets this to
   * false, because its state cannot go back. The engine then has no draft tokens, prefix cache,
   * connector or sessions (`resumable`). Default true.
   */
  readonly canRollBack?: boolean;
}

const POOL = ['numBlocks', 'blockSize'] as const;
const SHAPE = ['maxNumSeqs', 'maxNumBatchedTokens', 'maxModelLen'] as const;
const IN_FLIGHT = ['pipelineDepth', 'numSpeculativeTokens'] as const;

const LIMITS = knownNames<ExecutorLimits>('executor.limits', {
  numBlocks: true,
  blockSize: true,
  kvGroups: true,
  maxNumSeqs: true,
  maxNumBatchedTokens: true,
  maxModelLen: true,
  fixedShape: true,
  pipelineDepth: true,
  numSpeculativeTokens: true,
  canRollBack: true,
});

/** Reads each limit once and checks it. @throws ERR_BLOCKSTEP_BAD_ARG */
export function parseLimits(limits: unknown): ExecutorLimits {
  if (limits === undefined) return {};
  if (typeof limits !== 'object' || limits === null)
    throw badArgument('executor.limits', show(limits), 'an object');
  checkNames(limits, LIMITS);
  const given = limits as Record<string, unknown>;
  const parsed: { -readonly [name in keyof ExecutorLimits]: ExecutorLimits[name] } = {};
  for (const name of [...POOL, ...SHAPE, ...IN_FLIGHT]) {
    const value = given[name];
    const least = name === 'numSpeculativeTokens' ? 0 : 1;
    if (value !== undefined) parsed[name] = checkInteger(`executor.limits.${name}`, value, least, 2 ** 30);
  }
  const { kvGroups } = given;
  if (kvGroups !== undefined) parsed.kvGroups = parseGroups(kvGroups);
  for (const name of ['canRollBack', 'fixedShape'] as const) {
    const value = given[name];
    if (value !== undefined) parsed[name] = checkBoolean(`executor.limits.${name}`, value);
  }
  return parsed;
}

/**
 * A copy of the groups. Their content is checked with the options of the scheduler, because their
 * defaults depend on these.
 */
function parseGroups(value: unknown): readonly KvGroupOptions[] | null {
  if (value === null) return null;
  if (!Array.isArray(value) || !value.every(isObject))
    throw badArg('executor.limits.kvGroups', value, 'a list of groups, or null');
  return value.map((group) => ({ ...group }) as unknown as KvGroupOptions);
}

/**
 * The options of a scheduler whose executor has these limits. An option that was not given becomes
 * the executor's exact size, or the smaller of the default and the executor's limit. Each option is
 * read once, here. The scheduler refuses options of a wrong type.
 * @throws ERR_BLOCKSTEP_BAD_ARG for an option that the executor cannot serve
 */
export function limited(options: SchedulerOptions, limits: ExecutorLimits): SchedulerOptions {
  const lowered: Record<string, unknown> = {};
  const { fixedShape = false } = limits;
  for (const name of fixedShape ? [...POOL, ...SHAPE] : POOL) {
    const { [name]: only } = limits;
    if (only === undefined) continue;
    const { [name]: given = only } = options;
    if (typeof given === 'number' && given !== only)
      throw badArgument(name, show(given), `${only}, which the executor was made for`);
    lowered[name] = given;
  }
  const { kvGroups } = options;
  if (limits.kvGroups !== undefined && kvGroups === undefined) lowered['kvGroups'] = limits.kvGroups;
  for (const name of fixedShape ? IN_FLIGHT : [...SHAPE, ...IN_FLIGHT]) {
    const { [name]: most } = limits;
    if (most === undefined) continue;
    const { [name]: given = Math.min(DEFAULT_LIMITS[name], most) } = options;
    if (typeof given === 'number' && given > most)
      throw badArgument(name, show(given), `at most ${most}, the executor's limit`);
    lowered[name] = given;
  }
  if (limits.canRollBack === false) {
    const { numSpeculativeTokens = 0, enablePrefixCaching = false, connector = null } = options;
    const but = 'since the executor cannot roll back';
    if (numSpeculativeTokens !== 0)
      throw badArgument('numSpeculativeTokens', show(numSpeculativeTokens), `0, ${but}`);
    if (enablePrefixCaching !== false)
      throw badArgument('enablePrefixCaching', show(enablePrefixCaching), `false, ${but}`);
    if (connector !== null) throw badArgument('connector', show(connector), `none, ${but}`);
    Object.assign(lowered, { numSpeculativeTokens, enablePrefixCaching, connector });
  }
  return { ...options, ...lowered };
}
