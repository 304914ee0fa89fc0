import { checkNumber } from '../../base/checks.js';
import { badArgument, checkInteger, show } from '../../base/errors.js';
import { checkNames, knownNames } from '../../base/known-names.js';
import { chance, mix, textKey } from '../../base/random.js';
import type { Executor, ExecutorPlan, ExecutorResult } from '../../engine/executor/executor.js';
import type { CostModel } from './cost-model.js';
import { ACCEPTANCE_RATE } from './cost-model.js';
import { CostModelExecutor, type TimedTokens } from './cost-model-executor.js';
import type { StepCost } from './step-features.js';

/** Options of a `SimulatedExecutor`. */
export interface SimulatedExecutorOptions {
  /** Decides how long a step takes: the figures of a roofline model, or a `StepCost`. */
  model: CostModel | StepCost;
  /**
   * The engine's `maxNumSeqs`, `pipelineDepth` and `numSpeculativeTokens`; the last two are 1 and 0
   * by default.
   */
  maxNumSeqs: number;
  pipelineDepth?: number;
  numSpeculativeTokens?: number;
  /** The tokens that texts are made of. */
  vocabulary: Int32Array;
  /** The token that ends a text. */
  eosTokenId: number;
  /** Mean length of a text in tokens, unless its request ends it before. Default 200. */
  meanOutputTokens?: number;
  /** Probability that a draft token is accepted. Default 0.7. */
  acceptanceRate?: number;
  /** Equal seeds give equal texts to equal request ids. Default 0. */
  seed?: number;
}

const OPTIONS = knownNames<SimulatedExecutorOptions>('the options of a SimulatedExecutor', {
  model: true,
  maxNumSeqs: true,
  pipelineDepth: true,
  numSpeculativeTokens: true,
  vocabulary: true,
  eosTokenId: true,
  meanOutputTokens: true,
  acceptanceRate: true,
  seed: true,
});
/** Mixed into the draws that end texts, so that these draws differ from those that make tokens. */
const ENDS = 0x2545f491;

/**
 * Stands in for a GPU. The executor invents texts, and each step takes the real time that a cost
 * model gives. An engine over it therefore decides and answers as over such a GPU.
 *
 * A step is answered when a timer of the platform fires, up to about a millisecond late. With one
 * step in flight, the next step begins that much later. With more steps in flight, the device
 * counts as busy meanwhile.
 */
export class SimulatedExecutor implements Executor {
  readonly usesTables = false;
  readonly #model: CostModelExecutor;
  readonly #eosTokenId: number;
  /** Probability that a token is the last token of its text. */
  readonly #endRate: number;
  readonly #seed: number;
  readonly #maxDrafts: number;
  readonly #timers = new Set<NodeJS.Timeout>();

  /** @throws ERR_BLOCKSTEP_BAD_ARG */
  constructor(options: SimulatedExecutorOptions) {
    if (typeof options !== 'object' || options === null)
      throw badArgument('options', show(options), 'an object');
    checkNames(options, OPTIONS);
    const {
      model,
      maxNumSeqs,
      pipelineDepth = 1,
      numSpeculativeTokens = 0,
      vocabulary,
      eosTokenId,
    } = options;
    const { meanOutputTokens = 200, acceptanceRate = ACCEPTANCE_RATE, seed = 0 } = options;
    this.#model = new CostModelExecutor({
      model,
      now: () => performance.now(),
      seed,
      acceptanceRate,
      maxEntries: maxNumSeqs,
      maxDrafts: numSpeculativeTokens,
      // The engine reads an answer while the next step is submitted.
      stepsInFlight: pipelineDepth + 1,
      vocabulary,
    });
    this.#eosTokenId = checkInteger('eosTokenId', eosTokenId, 0, 2 ** 31 - 2);
    this.#endRate = 1 / checkNumber('meanOutputTokens', meanOutputTokens, 1);
    this.#seed = seed;
    this.#maxDrafts = numSpeculativeTokens;
  }

  execute(plan: ExecutorPlan): Promise<ExecutorResult> {
    const result = this.#model.execute(plan);
    this.#endTexts(plan, result);
    const drafts = this.#maxDrafts > 0 ? { drafts: copied(this.#model.draft(plan)) } : {};
    const answer = { tokens: result.tokens, counts: result.counts, ...drafts };
    return new Promise((resolve) => {
      const timer = setTimeout(
        () => {
          this.#timers.delete(timer);
          resolve(answer);
        },
        Math.max(0, result.finishMs - performance.now()),
      );
      this.#timers.add(timer);
    });
  }

  /** Drops the steps in flight. */
  dispose(): void {
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
  }

  /**
   * Ends texts. Each token ends its text with the same probability, so the lengths have a geometric
   * distribution. A request that may not end yet (`ignoreEos`, `minTokens`) continues behind such a
   * token, as with a model.
   */
  #endTexts(plan: ExecutorPlan, { tokens, counts, firsts }: TimedTokens): void {
    let at = 0;
    for (let i = 0; i < plan.numRequests; i++) {
      if (counts[i] === 0) continue;
      const text = mix(this.#seed, textKey(plan.requests[i].id)) ^ ENDS;
      for (let j = 0; j < counts[i]; j++) {
        if (chance(text, firsts[i] + j) < this.#endRate) tokens[at + j] = this.#eosTokenId;
      }
      at += counts[i];
    }
  }
}

function copied<T extends { readonly tokens: Int32Array; readonly counts: Int32Array }>({
  tokens,
  counts,
}: T) {
  return { tokens: tokens.slice(), counts: counts.slice() };
}
