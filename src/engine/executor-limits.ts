import { badArgument, checkInteger, show } from '../core/errors.js';
import { DEFAULT_LIMITS, type SchedulerOptions } from '../scheduler/options.js';
import { checkBoolean } from '../scheduler/validate.js';

/** What an executor can do at most. What is left out has no limit. */
export interface ExecutorLimits {
  /** Requests in one plan. */
  readonly maxNumSeqs?: number;
  /** Tokens in one plan. */
  readonly maxNumBatchedTokens?: number;
  /** Tokens of one request, prompt and output. */
  readonly maxModelLen?: number;
  /**
   * Whether the KV of single positions can be taken back and shared. A recurrent model, whose state only goes on, says false:
   * then there are no drafts, no prefix cache, no connector, and no sessions (`resumable`). Default true.
   */
  readonly canRollBack?: boolean;
}

const COUNTS = ['maxNumSeqs', 'maxNumBatchedTokens', 'maxModelLen'] as const;

/** Limits, checked, each read once. @throws ERR_BLOCKSTEP_BAD_ARG */
export function takeLimits(limits: unknown): ExecutorLimits {
  if (limits === undefined) return {};
  if (typeof limits !== 'object' || limits === null)
    throw badArgument('executor.limits', show(limits), 'an object');
  const given = limits as Record<string, unknown>;
  const unknown = Object.keys(given).find((name) => name !== 'canRollBack' && !isCount(name));
  if (unknown !== undefined)
    throw badArgument('executor.limits', show(unknown), `names among ${COUNTS.join(', ')}, canRollBack`);
  const taken: { -readonly [name in keyof ExecutorLimits]: ExecutorLimits[name] } = {};
  for (const name of COUNTS) {
    const value = given[name];
    if (value !== undefined) taken[name] = checkInteger(`executor.limits.${name}`, value, 1, 2 ** 30);
  }
  const { canRollBack } = given;
  if (canRollBack !== undefined) taken.canRollBack = checkBoolean('executor.limits.canRollBack', canRollBack);
  return taken;
}

/**
 * The options of a scheduler whose executor has these limits. An option that was not given is the executor's limit where that
 * is below its default. Each is read once, here; one of a wrong type is left to the scheduler to refuse.
 * @throws ERR_BLOCKSTEP_BAD_ARG for an option that the executor cannot serve
 */
export function limited(options: SchedulerOptions, limits: ExecutorLimits): SchedulerOptions {
  const lowered: PropertyDescriptorMap = {};
  for (const name of COUNTS) {
    const most = limits[name];
    if (most === undefined) continue;
    const given = options[name];
    if (typeof given === 'number' && given > most)
      throw badArgument(name, show(given), `at most ${most}, the executor's limit`);
    lowered[name] = { value: given === undefined ? Math.min(DEFAULT_LIMITS[name], most) : given };
  }
  if (limits.canRollBack === false) {
    const { numSpeculativeTokens = 0, enablePrefixCaching = false, connector = null } = options;
    const but = 'since the executor cannot roll back';
    if (numSpeculativeTokens !== 0)
      throw badArgument('numSpeculativeTokens', show(numSpeculativeTokens), `0, ${but}`);
    if (enablePrefixCaching !== false)
      throw badArgument('enablePrefixCaching', show(enablePrefixCaching), `false, ${but}`);
    if (connector !== null) throw badArgument('connector', show(connector), `none, ${but}`);
    for (const [name, value] of Object.entries({ numSpeculativeTokens, enablePrefixCaching, connector }))
      lowered[name] = { value };
  }
  return Object.keys(lowered).length === 0 ? options : (Object.create(options, lowered) as SchedulerOptions);
}

function isCount(name: string): boolean {
  return (COUNTS as readonly string[]).includes(name);
}
