import { checkNumber } from '../../base/checks.js';
import { badArgument, checkInteger, show } from '../../base/errors.js';
import { INSPECT, showFacts } from '../../base/inspect.js';
import { checkNames, knownNames } from '../../base/known-names.js';
import { chance, mix, textKey } from '../../base/random.js';
import type { Executor, ExecutorPlan, ExecutorRequest, FlatTokens } from '../../engine/executor/executor.js';
import type { CostModel } from './cost-model.js';
import { checkMs, parseStepCost } from './step-cost.js';
import { type StepCost, StepFeatures } from './step-features.js';

/** Without a vocabulary, sampled token ids lie in [0, SAMPLED_TOKENS). */
const SAMPLED_TOKENS = 2 ** 17;
/**
 * Mixed into the draws that decide whether a draft is right, so that these draws differ from those
 * that make tokens.
 */
const ACCEPTANCE = 0x5bd1e995;
/**
 * Most tokens in one result, and most results in use at once: both far above any scheduler's need.
 */
const MAX_RESULT_TOKENS = 2 ** 22;
const MAX_STEPS_IN_FLIGHT = 16;
/** Columns of a plan that have one word for each entry. */
const COLUMNS = ['slots', 'numScheduledTokens', 'numComputedTokens', 'numDraftTokens'] as const;

/** Options of a `CostModelExecutor`. */
export interface CostModelExecutorOptions {
  /** Decides how long a step takes: the figures of a roofline model, or a `StepCost`. */
  model: CostModel | StepCost;
  /** The virtual clock, in milliseconds. */
  now: () => number;
  /** Equal seeds give equal tokens and equal acceptance of drafts: 0 to 2^32 - 1. */
  seed: number;
  /**
   * Probability that the model agrees with a draft token, given that it agreed with those before
   * it.
   */
  acceptanceRate: number;
  /** Most entries of a plan. */
  maxEntries: number;
  /** Most draft tokens of an entry. */
  maxDrafts: number;
  /** Most steps in flight, which is the number of results in use at once. */
  stepsInFlight: number;
  /** The tokens that texts are made of, at least two. Default: all from 0 to 2^17 - 1. */
  vocabulary?: Int32Array;
}

type CheckedOptions = CostModelExecutorOptions & { model: StepCost };

const OPTIONS = knownNames<CostModelExecutorOptions>('the options of a CostModelExecutor', {
  model: true,
  now: true,
  seed: true,
  acceptanceRate: true,
  maxEntries: true,
  maxDrafts: true,
  stepsInFlight: true,
  vocabulary: true,
});

/** The tokens of a step, and when the device computed it, in milliseconds of the virtual clock. */
export interface TimedTokens extends FlatTokens {
  /**
   * For each entry: how many tokens its request had before, so the output index of its first token
   * here.
   */
  readonly firsts: Int32Array;
  /** When the device begins the step. */
  startMs: number;
  /** When the device has computed the step, and its tokens exist. */
  finishMs: number;
}

/** The request in a slot. */
interface Sequence {
  /** Handle of the request: another handle means that another request has the slot now. */
  handle: number;
  /** Seed of the request's tokens. */
  key: number;
  /** Tokens sampled so far, including steps in flight. */
  sampled: number;
}

/**
 * An executor without a model. It invents tokens, and says how long each step would take, in
 * virtual time.
 *
 * The host work of a step begins when the step is submitted. The device work of a step begins when
 * the step's host work and the previous step are done. With several steps in flight, the host work
 * therefore hides behind the device, as in vLLM's async scheduling. The token at an output index
 * depends on the seed, the request's id and the index alone, never on the batch.
 */
export class CostModelExecutor implements Executor {
  readonly #options: Readonly<CheckedOptions>;
  readonly #results: TimedTokens[];
  readonly #drafts: FlatTokens;
  readonly #features = new StepFeatures();
  #nextResult = 0;
  #deviceFreeMs = 0;
  /** By slot. */
  readonly #sequences: Sequence[] = [];

  /** @throws ERR_BLOCKSTEP_BAD_ARG */
  constructor(options: CostModelExecutorOptions) {
    this.#options = parseOptions(options);
    const { maxEntries, maxDrafts, stepsInFlight } = this.#options;
    this.#results = Array.from({ length: stepsInFlight }, () => ({
      ...flatTokens(maxEntries, maxEntries * (1 + maxDrafts)),
      firsts: new Int32Array(maxEntries),
      startMs: 0,
      finishMs: 0,
    }));
    this.#drafts = flatTokens(maxEntries, maxEntries * maxDrafts);
  }

  /**
   * Computes the next step. The result is valid until `stepsInFlight` further steps were executed.
   * Hand its tokens to the scheduler from `finishMs` on.
   * @throws ERR_BLOCKSTEP_BAD_ARG for a value that is no plan, or a plan above `maxEntries` or
   * `maxDrafts`
   */
  execute(plan: ExecutorPlan): TimedTokens {
    this.#checkPlan(plan);
    const result = this.#results[this.#nextResult];
    this.#nextResult = (this.#nextResult + 1) % this.#results.length;
    const features = this.#features;
    features.begin();
    let numTokens = 0;
    for (let i = 0; i < plan.numRequests; i++) {
      const sequence = this.#sequence(plan.slots[i], plan.requests[i]);
      features.addEntry(plan, i, sequence.sampled);
      result.firsts[i] = sequence.sampled;
      const count = this.#sample(plan, i, sequence, result.tokens, numTokens);
      result.counts[i] = count;
      numTokens += count;
    }
    features.end();
    const { model } = this.#options;
    const now = this.#options.now();
    const isEmpty = plan.totalTokens === 0;
    const hostMs = isEmpty ? 0 : checkMs('hostMs', model.hostMs(features));
    const stepMs = isEmpty ? 0 : checkMs('stepMs', model.stepMs(features));
    result.startMs = Math.max(now + hostMs, this.#deviceFreeMs);
    result.finishMs = result.startMs + stepMs;
    this.#deviceFreeMs = result.finishMs;
    return result;
  }

  /**
   * Draft tokens for the requests of a plan that was just executed and updated. A request that has
   * sampled gets the plan's `maxDrafts` tokens, a request that is still prefilling none. The model
   * will accept each draft at the acceptance rate. The result is valid until the next call.
   * @throws ERR_BLOCKSTEP_BAD_ARG as `execute`
   */
  draft(plan: ExecutorPlan): FlatTokens {
    this.#checkPlan(plan);
    const { tokens, counts } = this.#drafts;
    let numTokens = 0;
    for (let i = 0; i < plan.numRequests; i++) {
      const sequence = this.#sequence(plan.slots[i], plan.requests[i]);
      counts[i] = sequence.sampled > 0 ? plan.maxDrafts : 0;
      for (let j = 0; j < counts[i]; j++) {
        const index = sequence.sampled + j;
        tokens[numTokens++] = this.#tokenAt(sequence, index, this.#accepts(sequence, index) ? 0 : 1);
      }
    }
    return this.#drafts;
  }

  [INSPECT](depth: number, options: object): string {
    const { maxEntries, maxDrafts, stepsInFlight, seed } = this.#options;
    const facts = { maxEntries, maxDrafts, stepsInFlight, seed, deviceFreeMs: this.#deviceFreeMs };
    return showFacts('CostModelExecutor', depth, options, facts);
  }

  /** Checks the shape of a plan. Runs in every step, so it checks no entries. */
  #checkPlan(plan: ExecutorPlan): void {
    if (typeof plan !== 'object' || plan === null) throw badArgument('plan', show(plan), 'an object');
    const { maxEntries, maxDrafts } = this.#options;
    const n = checkInteger('plan.numRequests', plan.numRequests, 0, maxEntries);
    const drafts = checkInteger('plan.maxDrafts', plan.maxDrafts, 0, maxDrafts);
    checkLength('requests', plan.requests, n);
    for (const column of COLUMNS) checkLength(column, plan[column], n);
    checkLength('draftTokens', plan.draftTokens, n * drafts);
  }

  /** Writes the tokens that entry i samples from `tokens[at]` on. @returns how many */
  #sample(plan: ExecutorPlan, i: number, sequence: Sequence, tokens: Int32Array, at: number): number {
    const first = sequence.sampled;
    const known = plan.requests[i].numPromptTokens + first;
    if (plan.numComputedTokens[i] + plan.numScheduledTokens[i] < known) return 0;
    const numDrafts = plan.numDraftTokens[i];
    let count = 0;
    do {
      tokens[at + count] = this.#tokenAt(sequence, first + count);
      count++;
    } while (count <= numDrafts && this.#agrees(sequence, first + count - 1, draftOf(plan, i, count - 1)));
    sequence.sampled = first + count;
    return count;
  }

  /**
   * Whether the model accepts a draft at an output index. A draft of -1 is known to the device
   * only, so chance decides.
   */
  #agrees(sequence: Sequence, index: number, draft: number): boolean {
    return draft < 0 ? this.#accepts(sequence, index) : draft === this.#tokenAt(sequence, index);
  }

  /** The token at an output index. @param other 1 gives another token than the right token */
  #tokenAt({ key }: Sequence, index: number, other = 0): number {
    const drawn = mix(key, index) ^ other;
    const { vocabulary } = this.#options;
    return vocabulary === undefined
      ? drawn & (SAMPLED_TOKENS - 1)
      : vocabulary[(drawn >>> 0) % vocabulary.length];
  }

  #accepts(sequence: Sequence, index: number): boolean {
    return chance(sequence.key ^ ACCEPTANCE, index) < this.#options.acceptanceRate;
  }

  /** The request in a slot. The sequence starts afresh if another request had the slot before. */
  #sequence(slot: number, { id, handle }: ExecutorRequest): Sequence {
    const known = this.#sequences[slot];
    if (known !== undefined && known.handle === handle) return known;
    const sequence = { handle, key: mix(this.#options.seed, textKey(id)), sampled: 0 };
    this.#sequences[slot] = sequence;
    return sequence;
  }
}

/** A checked copy of the options, which later changes of the caller's object do not reach. */
function parseOptions(options: CostModelExecutorOptions): CheckedOptions {
  if (typeof options !== 'object' || options === null)
    throw badArgument('options', show(options), 'an object');
  checkNames(options, OPTIONS);
  const { model, now, seed, acceptanceRate, maxEntries, maxDrafts, stepsInFlight, vocabulary } = options;
  if (typeof now !== 'function') throw badArgument('now', show(now), 'a function that returns milliseconds');
  checkInteger('maxEntries', maxEntries, 1, MAX_RESULT_TOKENS);
  if (vocabulary !== undefined && !(vocabulary instanceof Int32Array && vocabulary.length >= 2))
    throw badArgument('vocabulary', show(vocabulary), 'an Int32Array of at least two tokens');
  return {
    ...(vocabulary && { vocabulary: vocabulary.slice() }),
    model: parseStepCost(model),
    now,
    seed: checkInteger('seed', seed, 0, 2 ** 32 - 1),
    acceptanceRate: checkNumber('acceptanceRate', acceptanceRate, 0, 1),
    maxEntries,
    maxDrafts: checkInteger('maxDrafts', maxDrafts, 0, Math.floor(MAX_RESULT_TOKENS / maxEntries) - 1),
    stepsInFlight: checkInteger('stepsInFlight', stepsInFlight, 1, MAX_STEPS_IN_FLIGHT),
  };
}

/** Checks that a column is long enough; a detached array has length 0. */
function checkLength(name: string, column: ArrayLike<unknown> | undefined, length: number): void {
  const found: unknown = column?.length;
  if (typeof found === 'number' && found >= length) return;
  throw badArgument(`plan.${name}`, show(column), `an array of at least ${length}`);
}

function draftOf(plan: ExecutorPlan, i: number, j: number): number {
  return plan.draftTokens[i * plan.maxDrafts + j];
}

function flatTokens(entries: number, tokens: number): FlatTokens {
  return { counts: new Int32Array(entries), tokens: new Int32Array(tokens) };
}
