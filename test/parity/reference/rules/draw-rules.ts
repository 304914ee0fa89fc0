import type { Rules } from '../../options.js';
import type { SubjectRules } from '../../subject.js';
import type { Random } from '../random.js';
import type { ConnectorRecipe, Recipe } from '../recipe.js';

/**
 * The rules of a generated trace: those of a version as far as they follow from its configuration,
 * or single ones of August beside May's.
 */
export type Choice = (typeof CHOICES)[number];
export const CHOICES = ['may', 'august', 'single'] as const;

/** A recipe, and the rules by which it is carried out. */
export interface Ruled {
  readonly recipe: Recipe;
  readonly rules: Rules;
}

/** Draws the rules of a trace, and the settings that only these rules make possible. */
export function drawRules(choice: Choice, recipe: Recipe, random: Random): Ruled {
  if (choice === 'may') return { recipe, rules: { like: '28be48fa' } };
  const rules: Rules =
    choice === 'august'
      ? { like: '017e9f444', ...tuned(recipe, random), ...roleRules(recipe, random) }
      : { like: random.pick(['28be48fa', '017e9f444']), ...singles(recipe, random) };
  const hasSinks = recipe.config.kv_groups?.some(({ type }) => type === 'sink') === true;
  // A reset of August drops what is in flight by tokens, so that drafts do not matter.
  const mayReset = rules.like === '017e9f444' && !hasSinks && random.chance(0.5);
  return {
    recipe: {
      ...recipe,
      grammarFailRate: (recipe.config.async_scheduling ? random.aside() : random).pick([0, 0.2]),
      resetsRunning: recipe.resetsRunning || mayReset,
      connector: recipe.connector && withoutSharedFailures(recipe.connector, recipe),
    },
    rules,
  };
}

/**
 * Without synchronous loads that fail while a step is in flight. If several requests fail with one
 * block, vLLM counts a token of that step as computed. With the rule `clipsHandOver` it would show
 * in how many blocks are handed over.
 */
function withoutSharedFailures(connector: ConnectorRecipe, { config }: Recipe): ConnectorRecipe {
  return config.async_scheduling ? { ...connector, failsSync: false } : connector;
}

/** Settings that the user of vLLM chooses. */
function tuned({ config }: Recipe, random: Random): SubjectRules {
  const watermark = random.pick([0, 0, 0.05, 0.1, 0.25]);
  const drafts = config.num_speculative_tokens;
  const rules =
    drafts > 0 && random.chance(0.4) ? { watermark, draftSlots: slots(config, random) } : { watermark };
  return config.kv_groups && random.chance(0.5) ? { ...rules, retention: retention(config, random) } : rules;
}

function retention({ scheduler_block_size: multiple = 1 }: Recipe['config'], random: Random) {
  return random.pick(['all', 'reachable', 'reachable', 0, multiple, 3 * multiple] as const);
}

/** Slots that leave a budget by which every request can be scheduled. */
function slots(config: Recipe['config'], random: Random): number {
  const { num_speculative_tokens: drafts, max_num_batched_tokens: budget, block_size } = config;
  const aligns = config.kv_groups?.some((group) => group.type === 'mamba' && group.mode === 'align') === true;
  const least = config.enable_chunked_prefill ? (aligns ? block_size : 1) : config.max_model_len - 1;
  return Math.min(random.integer(0, Math.max(1, drafts)), budget - least);
}

/** The rules that the role of a connector decides with steps in flight. */
function roleRules({ config, connector }: Recipe, random: Random): SubjectRules {
  if (connector === null || !config.async_scheduling) return {};
  const role = random.pick(['both', 'producer', 'consumer']);
  return {
    fenceFrees: role !== 'producer',
    preemptedOutputs: role === 'consumer' ? 'await' : 'discard',
  };
}

/** One to three rules, each as likely to be that of May as that of August. */
function singles({ config }: Recipe, random: Random): SubjectRules {
  const any: Required<Omit<SubjectRules, 'stateLoads' | 'promptTails'>> = {
    freeOrder: random.pick(['tail', 'unhashedFirst']),
    admissionLookahead: random.chance(0.5),
    watermark: random.pick([0, 0.05, 0.1, 0.25]),
    loadReservation: random.chance(0.5),
    draftSlots: slots(config, random),
    padDecode: random.chance(0.5),
    fenceFrees: random.chance(0.5),
    sessionSeats: random.pick(['running', 'withIdle']),
    preemptedOutputs: random.pick(['deliver', 'await', 'discard']),
    preemptedIds: random.pick(['step', 'sinceLast']),
    windowBasis: random.pick(['scheduled', 'processed']),
    retention: retention(config, random),
    grammarFailures: random.pick(['schedule', 'update']),
  };
  const names = Object.keys(any) as (keyof typeof any)[];
  const chosen = Array.from({ length: random.integer(1, 3) }, () => random.pick(names));
  // Drawn apart, so that the other rules of a seed stay what they were.
  const stateLoads = random.aside().chance(0.3) ? { stateLoads: random.aside().chance(0.5) } : {};
  const promptTails = random.aside().chance(0.3) ? { promptTails: random.aside().chance(0.5) } : {};
  return { ...Object.fromEntries(chosen.map((name) => [name, any[name]])), ...stateLoads, ...promptTails };
}
