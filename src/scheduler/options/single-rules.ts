import { deviationsOff } from './deviations.js';
import { groupOptions } from './kv-groups.js';
import type { SchedulerConfig } from './options.js';
import { SINGLE_RULES, type SingleRules } from './rules.js';

/**
 * The key under which options carry single rules. A log names the rules by which it was written,
 * and tests and benchmarks try each alone. For users `like` chooses all at once, so no option has
 * their names, and no entry point exports this key.
 */
const RULES: unique symbol = Symbol('single rules');

/** Options that may contain single rules. */
export type WithRules<Options> = Options & Partial<SingleRules>;

/**
 * Moves single rules among options to the place where a scheduler reads them. Copies of the result
 * carry them too.
 */
export function carryRules<const T extends object>(options: WithRules<T>): Omit<T, keyof SingleRules> {
  const others: Record<string | symbol, unknown> = { ...options };
  const rules: Record<string, unknown> = { ...rulesIn(options) };
  for (const name of SINGLE_RULES) {
    if (options[name] !== undefined) rules[name] = options[name];
    delete others[name];
  }
  return { ...others, [RULES]: rules } as unknown as Omit<T, keyof SingleRules>;
}

/** The options that give a checked configuration, as far as a log's header has them too. */
export function optionsAgain<
  const T extends Pick<SchedulerConfig, 'deviations' | 'kvGroups' | 'pipelineDepth'>,
>(config: T) {
  const { deviations, kvGroups, pipelineDepth, ...others } = config;
  return {
    ...carryRules(others),
    ...groupOptions(kvGroups),
    pipelineDepth: pipelineDepth as 1 | 2 | 3,
    deviations: deviationsOff(deviations),
  };
}

/** The single rules that options carry. */
export function rulesIn(options: object): Partial<SingleRules> {
  return (options as { [RULES]?: Partial<SingleRules> })[RULES] ?? {};
}
