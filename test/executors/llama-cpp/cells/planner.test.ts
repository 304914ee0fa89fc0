// Random engines over the planner of the executor: every text is right, in a cache with as many
// cells as the pool has tokens.
import { describe, expect, it } from 'vitest';
import { Random } from '../../../../src/base/random.js';
import type { StepTables } from '../../../../src/core/tables.js';
import { Engine } from '../../../../src/engine/engine.js';
import type { Executor, ExecutorPlan, ExecutorResult } from '../../../../src/engine/executor/executor.js';
import { readAnswer } from '../../../../src/executors/llama-cpp/step/answer.js';
import { type AnswerPlace, Chain } from '../../../../src/executors/llama-cpp/step/chain.js';
import { Drafts } from '../../../../src/executors/llama-cpp/step/drafts.js';
import { Planner } from '../../../../src/executors/llama-cpp/step/planner.js';
import { after, FakeCache, nextToken } from './fake-cache.js';
import { FakeContext } from './fake-context.js';

interface Sizes {
  readonly numBlocks: number;
  readonly blockSize: number;
  readonly maxNumSeqs: number;
  readonly cachedSequences: number;
  readonly numDrafts: number;
  readonly batch: number;
}

const NO_ADAPTERS = new Int32Array(64).fill(-1);

/** The executor over a cache that has exactly as many cells as the pool has tokens. */
class PlannerExecutor implements Executor {
  readonly planner: Planner;
  readonly cache: FakeCache;
  readonly chain: Chain;
  readonly #context: FakeContext;
  readonly #numDrafts: number;
  readonly #drafts: Drafts;
  readonly #samplers: Int32Array;
  readonly #cells: number;

  constructor(
    below: (most: number) => number,
    { numBlocks, blockSize, maxNumSeqs, cachedSequences, numDrafts, batch }: Sizes,
  ) {
    this.#cells = (numBlocks - 1) * blockSize;
    this.planner = new Planner(
      {
        numBlocks,
        blockSize,
        maxBlocks: numBlocks + 1,
        numSequences: maxNumSeqs + cachedSequences,
        keepsPrefixes: true,
      },
      { batch, splitFrom: 16, outputs: batch },
    );
    this.cache = new FakeCache(this.#cells);
    this.#context = new FakeContext(this.cache, below);
    this.chain = new Chain(this.#context, maxNumSeqs, blockSize);
    this.#numDrafts = numDrafts;
    this.#drafts = new Drafts(numDrafts);
    this.#samplers = new Int32Array(maxNumSeqs).fill(-1);
  }

  readonly execute: Executor['execute'] = (plan, tables) => {
    if (!this.chain.isOpen) return this.#begin(plan, tables!);
    if (!this.chain.fits(plan, tables!, this.#samplers))
      return this.chain.end().then(() => this.#begin(plan, tables!));
    const place = this.chain.next();
    return place instanceof Promise ? place.then((own) => this.#read(plan, own)) : this.#read(plan, place);
  };

  #begin(plan: ExecutorPlan, tables: StepTables): ExecutorResult {
    this.planner.plan(plan, tables, this.#samplers, NO_ADAPTERS);
    this.planner.cells.check(this.#cells);
    this.#drafts.read(plan, tables);
    const { values, length } = this.planner.program.write(plan.numRequests);
    const mayChain = this.#numDrafts === 0 && this.planner.program.isDecodes;
    const most = mayChain ? this.chain.mostAfter(plan, NO_ERRORS) : 0;
    if (most > 0) {
      this.planner.extend(plan, tables, most);
      this.planner.cells.check(this.#cells);
      this.chain.begin(plan, this.#samplers);
    }
    return this.#read(plan, this.chain.receive(this.#context.compute(values, length, most)));
  }

  #read(plan: ExecutorPlan, place: AnswerPlace): ExecutorResult {
    const result = readAnswer(plan, this.planner.program, place, false, NO_SAMPLERS, NO_ERRORS);
    this.chain.took(result.tokens);
    const drafts = this.#drafts.next(plan, result);
    return drafts === undefined ? result : { ...result, drafts };
  }

  requestsFinished(handles: readonly number[]): void {
    this.planner.release(handles);
    this.#drafts.forget(handles);
  }
}

const NO_ERRORS = new Uint8Array(64);
const NO_SAMPLERS = { numLogprobs: () => -1 };

function expected(prompt: readonly number[], count: number): number[] {
  let content = prompt.reduce(after, 0);
  return Array.from({ length: count }, () => {
    const token = nextToken(content);
    content = after(content, token);
    return token;
  });
}

async function life(seed: number): Promise<{
  most: number;
  hitsInStep: number;
  recomputed: number;
  preemptions: number;
  chainedSteps: number;
  droppedSteps: number;
}> {
  const random = new Random(seed);
  const one = <T>(list: readonly T[]): T => list[random.below(list.length)];
  const numDrafts = one([0, 0, 2]);
  const sizes = {
    numBlocks: one([6, 10, 20, 40]),
    blockSize: one([2, 4, 8]),
    maxNumSeqs: 2 + random.below(6),
    cachedSequences: one([0, 1, 2, 3, 8, 64]),
    numDrafts,
    batch: one([8, 16, 64]),
  };
  const executor = new PlannerExecutor((most) => random.below(most), sizes);
  const room = (sizes.numBlocks - 1) * sizes.blockSize;
  const engine = new Engine({
    numBlocks: sizes.numBlocks,
    blockSize: sizes.blockSize,
    maxNumSeqs: sizes.maxNumSeqs,
    maxModelLen: Math.min(60, room),
    maxNumBatchedTokens: one([8, 16, 64]),
    numSpeculativeTokens: numDrafts,
    ...(numDrafts > 0 && { speculativeMethod: 'ngram' as const }),
    reserveFullIsl: one([true, false]),
    policy: one(['fcfs', 'priority'] as const),
    executor,
  });
  engine.run();
  const prefixes = Array.from({ length: 4 }, () => Array.from({ length: 24 }, () => random.below(1000)));
  const most = Math.min(60, room);
  let preemptions = 0;
  const jobs = Array.from({ length: 30 }, async (_, i) => {
    const own = Array.from({ length: 1 + random.below(8) }, () => random.below(1000));
    const prompt = [...one(prefixes).slice(0, random.below(25)), ...own].slice(-Math.max(1, most - 12));
    const [maxTokens, priority, abortAt, delay] = [
      1 + random.below(10),
      random.below(3),
      random.below(8),
      random.below(8),
    ];
    for (let k = 0; k < delay; k++) await new Promise((resolve) => setImmediate(resolve));
    const stream = engine.submit({ id: `r${i}`, prompt, maxTokens, priority, ignoreEos: true });
    const got: number[] = [];
    for await (const { tokens } of stream) {
      got.push(...tokens);
      if (abortAt === 1) break;
    }
    expect(got).toEqual(expected(prompt, got.length));
    if (abortAt === 1) return;
    expect(got).toHaveLength(Math.min(maxTokens, most - prompt.length));
    preemptions += (await stream.result()).numPreemptions;
  });
  await Promise.all(jobs);
  await engine.shutdown();
  const { hitsInStep, recomputed } = executor.planner.counts;
  return { most: executor.cache.most / room, hitsInStep, recomputed, preemptions, ...executor.chain.counts };
}

describe('plans over cells', () => {
  it('read what was written, and need no cell more than the pool has tokens', async () => {
    const sum = { full: 0, hitsInStep: 0, recomputed: 0, preemptions: 0, chainedSteps: 0, droppedSteps: 0 };
    for (let seed = 1; seed <= Number(process.env['BLOCKSTEP_CELL_SEEDS'] ?? 150); seed++) {
      const { most, hitsInStep, recomputed, preemptions, chainedSteps, droppedSteps } = await life(
        seed,
      ).catch((error: Error) => {
        throw new Error(`seed ${seed}: ${error.message}`, { cause: error });
      });
      if (most === 1) sum.full++;
      sum.hitsInStep += hitsInStep;
      sum.recomputed += recomputed;
      sum.preemptions += preemptions;
      sum.chainedSteps += chainedSteps;
      sum.droppedSteps += droppedSteps;
    }
    // Cases that the seeds must have met, so that they prove something.
    expect(sum.full).toBeGreaterThan(10);
    expect(sum.hitsInStep).toBeGreaterThan(50);
    expect(sum.recomputed).toBeGreaterThan(50);
    expect(sum.preemptions).toBeGreaterThan(50);
    expect(sum.chainedSteps).toBeGreaterThan(50);
    expect(sum.droppedSteps).toBeGreaterThan(50);
  });
});
