import { chance, mix, textKey } from '../workload/random.js';
import { type CostModel, deviceMs } from './cost-model.js';
import type { Executor, ExecutorPlan, ExecutorRequest, FlatTokens } from './executor.js';

/** Token ids that it samples lie in [0, SAMPLED_TOKENS). */
const SAMPLED_TOKENS = 2 ** 17;
/** Keeps the draws that decide whether a draft is right apart from those that make tokens. */
const ACCEPTANCE = 0x5bd1e995;

/** What a `CostModelExecutor` is built from. */
export interface CostModelExecutorOptions {
  model: CostModel;
  /** The virtual clock, in milliseconds. */
  now: () => number;
  /** Equal seeds give equal tokens and equal acceptance of drafts. */
  seed: number;
  /** Probability that the model agrees with a draft token, given that it agreed with those before it. */
  acceptanceRate: number;
  /** Most entries a plan has, and most drafts an entry has. */
  maxEntries: number;
  maxDrafts: number;
  /** Results that are in use at once: steps in flight. */
  stepsInFlight: number;
}

/** The tokens of a step and when it was computed, in milliseconds of the virtual clock. */
export interface TimedTokens extends FlatTokens {
  startMs: number;
  finishMs: number;
}

/** What it knows of the request in a slot. */
interface Sequence {
  /** Tells when another request has moved into the slot. */
  handle: number;
  /** Decides its tokens. */
  key: number;
  /** Tokens sampled so far, those of steps in flight included. */
  sampled: number;
}

/**
 * An executor that computes nothing: it says how long a step would take, in virtual time, and makes tokens up.
 *
 * Host work of a step begins when it is submitted, device work when both that and the step before are done; so with
 * several steps in flight the overhead hides behind the device, as in vLLM's async scheduling.
 * The token at an output index depends on the seed, the request's id and the index alone, never on the batch.
 */
export class CostModelExecutor implements Executor {
  readonly #options: CostModelExecutorOptions;
  readonly #results: TimedTokens[];
  readonly #drafts: FlatTokens;
  readonly #load = { prefillTokens: 0, decodes: 0, decodeContextTokens: 0 };
  #nextResult = 0;
  #deviceFreeMs = 0;
  /** By slot. */
  readonly #sequences: Sequence[] = [];

  constructor(options: CostModelExecutorOptions) {
    this.#options = options;
    const { maxEntries, maxDrafts } = options;
    this.#results = Array.from({ length: options.stepsInFlight }, () => ({
      ...flatTokens(maxEntries, maxEntries * (1 + maxDrafts)),
      startMs: 0,
      finishMs: 0,
    }));
    this.#drafts = flatTokens(maxEntries, maxEntries * maxDrafts);
  }

  /**
   * Computes the next step. The result is valid until `stepsInFlight` further steps were executed; its tokens may be
   * handed to the scheduler from `finishMs` on.
   */
  execute(plan: ExecutorPlan): TimedTokens {
    const result = this.#results[this.#nextResult];
    this.#nextResult = (this.#nextResult + 1) % this.#results.length;
    const load = this.#load;
    load.prefillTokens = 0;
    load.decodes = 0;
    load.decodeContextTokens = 0;
    let numTokens = 0;
    for (let i = 0; i < plan.numRequests; i++) {
      const sequence = this.#sequence(plan.slots[i], plan.requests[i]);
      this.#weigh(plan, i, sequence);
      const count = this.#sample(plan, i, sequence, result.tokens, numTokens);
      result.counts[i] = count;
      numTokens += count;
    }
    const now = this.#options.now();
    const overheadMs = plan.totalTokens > 0 ? this.#options.model.stepOverheadMs : 0;
    result.startMs = Math.max(now + overheadMs, this.#deviceFreeMs);
    result.finishMs = result.startMs + deviceMs(this.#options.model, load);
    this.#deviceFreeMs = result.finishMs;
    return result;
  }

  /**
   * Drafts for the requests of a plan that was just executed and updated: `maxDrafts` for each one that has sampled,
   * none for one that is still prefilling. The model will agree with each of them at the acceptance rate. Valid until
   * the next call.
   */
  draft(plan: ExecutorPlan): FlatTokens {
    const { tokens, counts } = this.#drafts;
    let numTokens = 0;
    for (let i = 0; i < plan.numRequests; i++) {
      const sequence = this.#sequence(plan.slots[i], plan.requests[i]);
      counts[i] = sequence.sampled > 0 ? plan.maxDrafts : 0;
      for (let j = 0; j < counts[i]; j++) {
        const index = sequence.sampled + j;
        const right = tokenAt(sequence, index);
        tokens[numTokens++] = this.#accepts(sequence, index) ? right : right ^ 1;
      }
    }
    return this.#drafts;
  }

  /** Adds entry i to the load of the step: a decode computes nothing but tokens behind the last sampled one. */
  #weigh(plan: ExecutorPlan, i: number, { sampled }: Sequence): void {
    const computed = plan.numComputedTokens[i];
    const scheduled = plan.numScheduledTokens[i];
    if (sampled > 0 && computed >= plan.requests[i].numPromptTokens + sampled - 1) {
      this.#load.decodes++;
      this.#load.decodeContextTokens += computed + scheduled;
    } else {
      this.#load.prefillTokens += scheduled;
    }
  }

  /** Writes what entry i samples at `tokens[at]` and returns how many tokens those are. */
  #sample(plan: ExecutorPlan, i: number, sequence: Sequence, tokens: Int32Array, at: number): number {
    const first = sequence.sampled;
    const known = plan.requests[i].numPromptTokens + first;
    if (plan.numComputedTokens[i] + plan.numScheduledTokens[i] < known) return 0;
    const numDrafts = plan.numDraftTokens[i];
    let count = 0;
    do {
      tokens[at + count] = tokenAt(sequence, first + count);
      count++;
    } while (count <= numDrafts && this.#agrees(sequence, first + count - 1, draftOf(plan, i, count - 1)));
    sequence.sampled = first + count;
    return count;
  }

  /** Whether the model samples this draft at an output index. A draft that only the device knows is decided here. */
  #agrees(sequence: Sequence, index: number, draft: number): boolean {
    return draft < 0 ? this.#accepts(sequence, index) : draft === tokenAt(sequence, index);
  }

  #accepts(sequence: Sequence, index: number): boolean {
    return chance(sequence.key ^ ACCEPTANCE, index) < this.#options.acceptanceRate;
  }

  /** What is known of the request in a slot; nothing yet, if it is not the one that was there before. */
  #sequence(slot: number, { id, handle }: ExecutorRequest): Sequence {
    const known = this.#sequences[slot];
    if (known !== undefined && known.handle === handle) return known;
    const sequence = { handle, key: mix(this.#options.seed, textKey(id)), sampled: 0 };
    this.#sequences[slot] = sequence;
    return sequence;
  }
}

function tokenAt({ key }: Sequence, index: number): number {
  return mix(key, index) & (SAMPLED_TOKENS - 1);
}

function draftOf(plan: ExecutorPlan, i: number, j: number): number {
  return plan.draftTokens[i * plan.maxDrafts + j];
}

function flatTokens(entries: number, tokens: number): FlatTokens {
  return { counts: new Int32Array(entries), tokens: new Int32Array(tokens) };
}
