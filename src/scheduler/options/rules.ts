// The rules in which versions of vLLM differ, and the rules of each version.
import { badArg, checkBoolean, checkOneOf } from '../../base/checks.js';
import { checkInteger } from '../../base/errors.js';
import type { Deviations } from './deviations.js';

/**
 * The rules in which versions of vLLM decide differently, without either being wrong. The option
 * `like` chooses all of them at once; they are not options of their own. The defaults are those
 * that perform best: the rules of May 2026, except for `freeOrder`, `admissionLookahead` and
 * `loadReservation`, which are of August.
 */
export interface SingleRules {
  /**
   * The place where the free queue inserts freed blocks. `tail`: all at its end. `unhashedFirst`:
   * blocks without a hash at its front, because they cannot be found, and only the others at its
   * end (vLLM #42656). More of the prefix cache survives then. Default `unhashedFirst`.
   */
  freeOrder: 'tail' | 'unhashedFirst';
  /**
   * Whether an admitted request gets slots for its drafts at once (vLLM #43733). False: only if it
   * had computed tokens before. Then many a request takes its last block and is preempted in the
   * next step. Default true, where drafts have slots (`numSpeculativeTokens`).
   */
  admissionLookahead: boolean;
  /**
   * Whether a request is admitted to an asynchronous load only if the prompts in progress still fit
   * beside it (vLLM #44560). The request's own tokens do not count twice. vLLM counts them twice if
   * an earlier load of it failed, and waits for ever. Default true.
   */
  loadReservation: boolean;
  /**
   * Whether a request that is admitted with a single token to compute gets a row of padding drafts.
   * It does so in a step whose other requests all decode (vLLM #45237). Every request of the step
   * then has the same number of tokens, as a captured graph requires. Default false.
   */
  padDecode: boolean;
  /**
   * Whether blocks that a step in flight may still write are freed only when that step has been
   * updated (vLLM #45357). A preemption then frees nothing at once. blockstep does not need this,
   * because loads wait for `notBefore`. Default false.
   */
  fenceFrees: boolean;
  /**
   * Which sessions count against `maxNumSeqs`: only running ones, or also those that wait for input
   * (`withIdle`, vLLM #46974). Default `running`.
   */
  sessionSeats: 'running' | 'withIdle';
  /**
   * How the outputs of steps in flight for a preempted request are handled. `deliver`: they are
   * kept. `await`: they are kept, and the request is not admitted again before they have come (vLLM
   * #48245). `discard`: they are dropped, and computed again (vLLM #50297, for a connector that
   * requires delivery). Default `deliver`.
   */
  preemptedOutputs: 'deliver' | 'await' | 'discard';
  /**
   * Which requests `Plan.preempted` lists. `step` (default): the requests that the plan's step
   * preempted. `sinceLast`: also those that a forced reset has preempted since the last step (vLLM
   * #46974).
   */
  preemptedIds: 'step' | 'sinceLast';
  /**
   * When a request whose grammar failed ends: in the step that finds it (`schedule`), or with the
   * next update (vLLM #47312; before, vLLM crashed). Default `schedule`.
   */
  grammarFailures: 'schedule' | 'update';
  /**
   * The tokens by which windows, chunks and states drop blocks. `scheduled`: all computed ones,
   * including those of steps in flight, except for drafts if `keepDraftWindows` or a state needs
   * it. `processed`: none that a step in flight computes, so that no block is dropped that such a
   * step reads; requests keep more blocks accordingly. Default `scheduled`.
   */
  windowBasis: 'scheduled' | 'processed';
  /**
   * Which blocks of windows, and which states, enter the prefix cache. `all`: each full one, unless
   * no hit can end after it. `reachable`: each that a hit can use. A number, a multiple of all
   * block sizes: those for hits that end at its multiples. Hits at the end of a prompt, and where a
   * prompt diverges from an earlier one, are included; 0: only these. Default `all`.
   */
  retention: 'all' | 'reachable' | number;
  /**
   * Whether a connector may load a state if steps end at the end of a block (Mamba in mode
   * `align`). False: its offer is refused, and counted. vLLM of May fails an assertion. vLLM of
   * August loads, but counts a block too few, and crashes if just that one is missing. Default
   * false.
   */
  stateLoads: boolean;
  /**
   * Whether full attention with blocks larger than `hashBlockSize` also publishes the block in
   * which a prompt's last hash ends (vLLM #46384). No lookup finds it. But with
   * `freeOrder: 'unhashedFirst'` such a block is kept longer than others that cannot be found.
   * Default false.
   */
  promptTails: boolean;
}

/** All rules: the single ones, and the two that are options too (`SchedulerOptions`). */
export interface VersionRules extends SingleRules {
  watermark: number;
  draftSlots: number;
}

/** The versions of vLLM that `like` may name. A release names the commit of main next to it whose decisions were recorded. */
export type VllmVersion = 'vllm-0.22' | 'vllm-0.27' | '28be48fa' | '017e9f444';

/** A commit of vLLM whose rules are known: from main in May 2026, and in August 2026. */
export type Commit = Exclude<VllmVersion, `vllm-${string}`>;

/** The commit that each version names. */
export const COMMITS: Readonly<Record<VllmVersion, Commit>> = {
  'vllm-0.22': '28be48fa',
  'vllm-0.27': '017e9f444',
  '28be48fa': '28be48fa',
  '017e9f444': '017e9f444',
};

/** The versions that `like` may name. */
export const VLLM_VERSIONS = Object.freeze(Object.keys(COMMITS)) as readonly [VllmVersion, ...VllmVersion[]];

/** The options that the rules of a version depend on. */
export interface RuleContext {
  readonly speculativeMethod: 'ngram' | 'eagle' | 'draft_model';
  readonly numSpeculativeTokens: number;
  readonly pipelineDepth: number;
  readonly hasConnector: boolean;
  /** The connector says of each request whether its KV must be delivered. */
  readonly requiresDelivery: boolean;
}

/**
 * The deviations that a version of vLLM has fixed itself. With its rules they are on even if all
 * others are off.
 */
export const MENDED: Readonly<Record<Commit, readonly (keyof Deviations)[]>> = {
  '28be48fa': [],
  '017e9f444': [
    'priorityCursor',
    'clipHandOver',
    'wholeStates',
    'zeroAttention',
    'zeroUnloaded',
    'loadNeeded',
    'holdAllHits',
  ],
};

const MAY: VersionRules = {
  freeOrder: 'tail',
  admissionLookahead: false,
  watermark: 0,
  loadReservation: false,
  draftSlots: 0,
  padDecode: false,
  fenceFrees: false,
  sessionSeats: 'running',
  preemptedOutputs: 'deliver',
  preemptedIds: 'step',
  grammarFailures: 'schedule',
  windowBasis: 'scheduled',
  retention: 'all',
  stateLoads: false,
  promptTails: false,
};

const RULES = Object.freeze(Object.keys(MAY)) as readonly (keyof VersionRules)[];

/** The names of the single rules. */
export const SINGLE_RULES = Object.freeze(
  RULES.filter((name) => name !== 'watermark' && name !== 'draftSlots'),
) as readonly (keyof SingleRules)[];

const MAX_SLOTS = 64;

/** The rules of a commit of vLLM; null: the defaults. */
export function rulesOf(like: Commit | null, context: RuleContext): VersionRules {
  if (like === '28be48fa') return MAY;
  const drafts = context.numSpeculativeTokens > 0;
  if (like === null)
    return {
      ...MAY,
      freeOrder: 'unhashedFirst',
      admissionLookahead: drafts,
      loadReservation: true,
    };
  return {
    freeOrder: 'unhashedFirst',
    admissionLookahead: true,
    watermark: 0,
    loadReservation: true,
    draftSlots: drafts && context.speculativeMethod === 'draft_model' ? 1 : 0,
    padDecode: drafts,
    fenceFrees: context.hasConnector && context.pipelineDepth > 1,
    sessionSeats: 'withIdle',
    preemptedOutputs: context.requiresDelivery ? 'discard' : 'await',
    preemptedIds: 'sinceLast',
    grammarFailures: 'update',
    windowBasis: 'processed',
    retention: 0,
    stateLoads: true,
    promptTails: true,
  };
}

/**
 * Checks the rules that were given, and fills in those of the version.
 * @param options of a scheduler
 * @param single the single rules that these options carry
 * @throws ERR_BLOCKSTEP_BAD_ARG naming the option, its value and what was expected
 */
export function parseRules(
  options: Partial<Omit<VersionRules, keyof SingleRules>>,
  single: Partial<SingleRules>,
  defaults: VersionRules,
): VersionRules {
  const { watermark = defaults.watermark, draftSlots = defaults.draftSlots } = options;
  const o = { ...defaults, ...single, watermark, draftSlots };
  return {
    freeOrder: checkOneOf('freeOrder', o.freeOrder, ['tail', 'unhashedFirst'] as const),
    admissionLookahead: checkBoolean('admissionLookahead', o.admissionLookahead),
    watermark: checkShare('watermark', o.watermark),
    loadReservation: checkBoolean('loadReservation', o.loadReservation),
    draftSlots: checkInteger('draftSlots', o.draftSlots, 0, MAX_SLOTS),
    padDecode: checkBoolean('padDecode', o.padDecode),
    fenceFrees: checkBoolean('fenceFrees', o.fenceFrees),
    sessionSeats: checkOneOf('sessionSeats', o.sessionSeats, ['running', 'withIdle'] as const),
    preemptedOutputs: checkOneOf('preemptedOutputs', o.preemptedOutputs, [
      'deliver',
      'await',
      'discard',
    ] as const),
    preemptedIds: checkOneOf('preemptedIds', o.preemptedIds, ['step', 'sinceLast'] as const),
    grammarFailures: checkOneOf('grammarFailures', o.grammarFailures, ['schedule', 'update'] as const),
    windowBasis: checkOneOf('windowBasis', o.windowBasis, ['scheduled', 'processed'] as const),
    retention: checkRetention(o.retention),
    stateLoads: checkBoolean('stateLoads', o.stateLoads),
    promptTails: checkBoolean('promptTails', o.promptTails),
  };
}

function checkRetention(value: unknown): VersionRules['retention'] {
  if (typeof value === 'number') return checkInteger('retention', value, 0, 2 ** 30);
  if (value === 'all' || value === 'reachable') return value;
  throw badArg('retention', value, 'all, reachable, or a number of tokens');
}

function checkShare(name: string, value: unknown): number {
  if (typeof value === 'number' && value >= 0 && value < 1) return value + 0;
  throw badArg(name, value, 'a share of the blocks, from 0 to less than 1');
}
