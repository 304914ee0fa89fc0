import {
  type Executor,
  type ExecutorPlan,
  type ExecutorResult,
  InputBatch,
  type StepInputs,
  type StepTables,
} from '../../../src/index.js';
import type { Random } from '../../support/engine-bench.js';

const VOCABULARY = 40;

/** The result of the model's attention for a token, with everything in front of it. */
function attend(before: number, value: number): number {
  return (Math.imul(before ^ value, 0x9e3779b1) + 0x7f4a7c15) | 0;
}

function tokenOf(all: number): number {
  return (all >>> 3) % VOCABULARY;
}

/** The next tokens of a text, as the model would say them if nothing ever went wrong. */
export function continuation(text: readonly number[], count: number): number[] {
  let all = 0;
  for (const token of text) all = attend(all, attend(all, token));
  const next: number[] = [];
  for (let i = 0; i < count; i++) {
    const token = tokenOf(all);
    next.push(token);
    all = attend(all, attend(all, token));
  }
  return next;
}

/** Which entries of a step fail, or that all of it does; null: nothing does. */
export type Mood = (plan: ExecutorPlan) => Uint8Array | 'throws' | null;

/**
 * A model whose KV of a token depends on that of all tokens before it, as in a real one of more
 * than one layer. So the KV on top of a wrong block is wrong too, and stays so when the block is
 * right again.
 *
 * It computes a step when it is submitted, and answers when it is told to. Without drafts.
 */
export class AttentiveExecutor implements Executor {
  readonly watchesBlocks: boolean;
  readonly requestsFinished?: (handles: readonly number[]) => void;
  /** Answers to be given, oldest first. */
  readonly pending: (() => void)[] = [];
  /** Looks at every step before it is computed. */
  onStep: (plan: ExecutorPlan, tables: StepTables) => void = () => {};
  /** Looks at what is really to be computed. */
  onInputs: (plan: ExecutorPlan, tables: StepTables, inputs: StepInputs) => void = () => {};
  /** Blocks whose KV is lost before the step is computed. */
  loses: (plan: ExecutorPlan) => number[] = () => [];
  mood: Mood = () => null;
  /** The further or different fields of an answer. */
  adds: (answer: ExecutorResult) => object = () => ({});
  /** Whether a step is answered at once. */
  atOnce: () => boolean = () => true;
  readonly batch: InputBatch;
  readonly #kv: Int32Array;
  /** Blocks that are lost and not reported. */
  readonly #lost: number[] = [];
  readonly #blockSize: number;

  constructor(
    { numBlocks, blockSize }: { numBlocks: number; blockSize: number },
    hears?: { watchesBlocks?: boolean; requestsFinished?: (handles: readonly number[]) => void },
  ) {
    this.#blockSize = blockSize;
    this.#kv = new Int32Array(numBlocks * blockSize);
    this.batch = new InputBatch({ blockSize });
    this.watchesBlocks = hears?.watchesBlocks === true;
    if (hears?.requestsFinished !== undefined) this.requestsFinished = hears.requestsFinished;
  }

  execute(plan: ExecutorPlan, tables: StepTables): ExecutorResult | PromiseLike<ExecutorResult> {
    this.onStep(plan, tables);
    for (const block of this.loses(plan)) {
      this.#spoil(block, block * 7919 + plan.step);
      this.#lost.push(block);
    }
    const mood = this.mood(plan);
    const answer = this.#compute(plan, tables, mood);
    // A step that fails says nothing; then the next one does.
    const lostBlocks = mood === 'throws' ? [] : this.#lost.splice(0);
    const lost = lostBlocks.length === 0 ? {} : { lostBlocks };
    const result: ExecutorResult = { ...answer, ...lost, ...this.adds(answer) };
    if (this.atOnce()) {
      if (mood === 'throws') throw new Error('the step failed');
      return result;
    }
    return new Promise((resolve, reject) => {
      this.pending.push(() => (mood === 'throws' ? reject(new Error('the step failed')) : resolve(result)));
    });
  }

  #spoil(block: number, garbage: number): void {
    const at = block * this.#blockSize;
    for (let i = 0; i < this.#blockSize; i++) this.#kv[at + i] = Math.imul(garbage + i, 0x85ebca6b) | 0;
  }

  #compute(plan: ExecutorPlan, tables: StepTables, mood: ReturnType<Mood>): ExecutorResult {
    const inputs = this.batch.prepare(plan, tables);
    this.onInputs(plan, tables, inputs);
    const counts = new Int32Array(plan.numRequests);
    const tokens: number[] = [];
    const errors = mood === null || mood === 'throws' ? undefined : mood;
    // Entry by entry: in a step, an entry precedes the entries that hit its blocks.
    for (let i = 0; i < plan.numRequests; i++) {
      const fails = mood === 'throws' || (errors !== undefined && errors[i] !== 0);
      const token = this.#entry(inputs, tables, i, fails);
      if (fails || inputs.samples[i] === 0) continue;
      counts[i] = 1;
      tokens.push(token);
    }
    const result = { tokens: Int32Array.from(tokens), counts };
    if (mood !== 'throws') this.batch.sampled(plan, result);
    return errors === undefined ? result : { ...result, errors };
  }

  /**
   * Writes the KV of the entry's tokens, each from all tokens before it. @returns the token behind
   * the last
   */
  #entry(inputs: StepInputs, tables: StepTables, entry: number, fails: boolean): number {
    const { queryStart, numComputed, tokens, slots } = inputs;
    let all = 0;
    if (queryStart[entry] === queryStart[entry + 1]) return -1;
    for (let p = 0; p < numComputed[entry]; p++) all = attend(all, this.#kv[this.#slotOf(tables, entry, p)]);
    for (let at = queryStart[entry]; at < queryStart[entry + 1]; at++) {
      const value = fails ? 0x5bd1e995 + at : attend(all, tokens[at]);
      this.#kv[slots[at]] = value;
      all = attend(all, value);
    }
    return tokenOf(all);
  }

  #slotOf({ blockTable, maxBlocksPerRow }: StepTables, entry: number, position: number): number {
    const block = blockTable[entry * maxBlocksPerRow + Math.floor(position / this.#blockSize)];
    return block * this.#blockSize + (position % this.#blockSize);
  }
}

/** Fails some rows of a step, or all of it: `often` of a thousand steps. */
export function moody(random: Random, often: number): Mood {
  return ({ numRequests }) => {
    if (random.below(1000) >= often) return null;
    if (random.chance(30)) return 'throws';
    return Uint8Array.from({ length: numRequests }, () => (random.chance(40) ? 1 : 0));
  };
}
