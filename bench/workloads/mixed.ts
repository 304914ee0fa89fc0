import { type Plan, Scheduler } from '../../src/index.js';
import { Random } from './random.js';
import { BLOCK_SIZE, HASH_SEED, Prompts } from './workloads.js';

/** Running requests of a full engine. */
export const SEQUENCES = 256;
const WAITING = 16;
const BUDGET = 8192;
const PROMPT = { min: 512, max: 2048 };
const OUTPUT = { min: 64, max: 256 };

/** The durations of the halves of a step, in milliseconds. */
export interface Halves {
  schedule: number;
  update: number;
}

/**
 * A full engine in balance: 256 running requests, of which one or two end in each step and are replaced. The prompts of the new ones
 * (512 to 2,048 tokens) are prefilled beside the decodes. The pool has room for the requests and a third more, so that after a
 * while every block that is taken evicts a cached one.
 */
export class Mixed {
  readonly #scheduler = new Scheduler({
    numBlocks: 32_768,
    blockSize: BLOCK_SIZE,
    maxNumSeqs: SEQUENCES,
    maxNumBatchedTokens: BUDGET,
    maxModelLen: PROMPT.max + OUTPUT.max,
    hashSeed: HASH_SEED,
  });
  readonly #prompts = new Prompts(PROMPT.max);
  readonly #random = new Random(2);
  readonly #result = { tokens: new Int32Array(SEQUENCES).fill(7), counts: new Int32Array(SEQUENCES) };
  #added = 0;
  /** Tokens that the last step computed. */
  scheduled = 0;

  /** Adds requests until the waiting queue is full. */
  refill(): void {
    while (this.#scheduler.numWaiting < WAITING) {
      const prompt = this.#prompts.next(this.#draw(PROMPT));
      const id = `mixed-${this.#added++}`;
      this.#scheduler.add({ id, prompt, maxTokens: this.#draw(OUTPUT), eosTokenId: 2 });
    }
  }

  /** One step. Returns the scheduler's part of it in milliseconds; making the model's answer is not counted. */
  step(halves: Halves): number {
    const start = performance.now();
    const plan = this.#scheduler.schedule();
    const planned = performance.now();
    this.scheduled = plan.totalTokens;
    this.#answer(plan);
    const answered = performance.now();
    this.#scheduler.update(plan, this.#result);
    halves.update = performance.now() - answered;
    halves.schedule = planned - start;
    return halves.schedule + halves.update;
  }

  /** Checks that the engine was full and in balance, and disposes it. */
  check(): void {
    const stats = this.#scheduler.stats();
    if (stats.numRunning < SEQUENCES - 8 || stats.finished.length === 0 || stats.evictions === 0) {
      throw new Error(`the mixed workload is not what it says: ${JSON.stringify(stats)}`);
    }
    this.#scheduler.dispose();
  }

  /** A token for every entry whose prompt is complete. */
  #answer(plan: Plan): void {
    const { counts } = this.#result;
    for (let i = 0; i < plan.numRequests; i++) counts[i] = Math.min(1, plan.maxOutputTokens[i]);
  }

  #draw({ min, max }: { min: number; max: number }): number {
    return min + this.#random.below(max - min + 1);
  }
}
