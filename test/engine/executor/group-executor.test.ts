// With KV cache groups: an executor gets places, slots and tables of each group.
import { describe, expect, it } from 'vitest';
import {
  computedInStep,
  Engine,
  type ExecutorPlan,
  InputBatch,
  type StepTables,
} from '../../../src/index.js';
import { randomGroups } from '../../core/group-life.js';
import { range, seeded } from '../../support/core-bench.js';
import { prompt } from '../../support/driver.js';
import { answerOf, settled } from '../../support/engine-bench.js';
import { FakeGrammar } from '../../support/fake-grammar.js';

/** As `computedInStep`, token by token: the places of a group that an entry reads and another entry of the step writes. */
function readInStep(plan: ExecutorPlan, tables: StepTables, group: number): string[] {
  const { slotMapping, blockTable, blockSize, maxBlocksPerRow } = tables.groups[group];
  const writers = new Map<bigint, number>();
  for (let i = 0; i < plan.numRequests; i++)
    for (let t = tables.queryStart[i]; t < tables.queryStart[i + 1]; t++) writers.set(slotMapping[t], i);
  writers.delete(-1n);
  const found = new Set<string>();
  for (let entry = 0; entry < plan.numRequests; entry++) {
    for (let p = 0; p < plan.numComputedTokens[entry]; p++) {
      const index = Math.floor(p / blockSize);
      const block = blockTable[entry * maxBlocksPerRow + index];
      const provider = block === 0 ? undefined : writers.get(BigInt(block * blockSize + (p % blockSize)));
      if (provider !== undefined && provider !== entry) found.add([entry, index, block, provider].join());
    }
  }
  return [...found];
}

describe('an executor of an engine with KV cache groups', () => {
  let numHits = 0;
  it.each(range(9, 1))('is given the places and slots of each group: random groups %i', async (seed) => {
    const options = randomGroups(seed);
    const batch = new InputBatch({ blockSize: 4 });
    let steps = 0;
    const errors: unknown[] = [];
    const execute = (plan: ExecutorPlan, tables: StepTables | null) => {
      try {
        check(plan, tables);
      } catch (error) {
        errors.push(error);
      }
      const answer = answerOf(plan);
      batch.sampled(plan, answer);
      return answer;
    };
    const check = (plan: ExecutorPlan, tables: StepTables | null) => {
      if (tables === null) throw new Error('this executor reads tables');
      steps += 1;
      expect(plan.groups).toHaveLength(tables.groups.length);
      expect(plan.groups[0].numBlocks).toBe(plan.numBlocks);
      const inputs = batch.prepare(plan, tables);
      expect(inputs.groups[0].slots).toBe(inputs.slots);
      for (const [g, { numBlocks, numNewBlocks, numHitBlocks }] of plan.groups.entries()) {
        for (let i = 0; i < plan.numRequests; i++) {
          expect(numBlocks[i]).toBe(engine.scheduler.core.blocks(plan.slots[i], g).length);
          if (plan.kinds[i] !== 0)
            expect([numNewBlocks[i], numHitBlocks[i] <= numBlocks[i]]).toEqual([numBlocks[i], true]);
        }
        if (plan.numDraftTokens.every((count) => count === 0)) {
          const slots = [...inputs.groups[g].slots.subarray(0, inputs.numTokens)];
          expect(slots).toEqual([...tables.groups[g].slotMapping.subarray(0, inputs.numTokens)].map(Number));
        }
        const hits = computedInStep(plan, tables, tables.groups[g].blockSize, g);
        expect(hits.map((hit) => Object.values(hit).join())).toEqual(readInStep(plan, tables, g));
        numHits += hits.length;
        // The array is a copy: writing into it changes nothing.
        if (g > 0) numBlocks.fill(-1);
      }
    };
    await using engine = new Engine({ ...options, pipelineDepth: 1, executor: { execute } });
    const next = seeded(seed);
    for (let step = 0; step < 120; step++) {
      while (engine.scheduler.numUnfinished < 10 && next(2) === 0) {
        engine.submit({ prompt: prompt(1 + next(80), next(3)), maxTokens: 1 + next(20) });
      }
      engine.step();
    }
    expect(errors).toEqual([]);
    expect(engine.stats().failedSteps).toBe(0);
    expect(steps).toBeGreaterThan(60);
    engine.verify();
  });

  it('had hits on blocks of the same step', () => {
    expect(numHits).toBeGreaterThan(20);
  });

  it('has the tables of all groups also for a step that was kept back', async () => {
    const seen: number[][] = [];
    const pending: (() => void)[] = [];
    const execute = (plan: ExecutorPlan, tables: StepTables | null) => {
      seen.push((tables as StepTables).groups.map(({ blockTable }) => blockTable[0]));
      const answer = answerOf(plan);
      return new Promise<typeof answer>((resolve) => pending.push(() => resolve(answer)));
    };
    const kvGroups = [{ type: 'full' }, { type: 'sliding', window: 5 }] as const;
    const sizes = { numBlocks: 60, blockSize: 4, maxModelLen: 96, maxNumSeqs: 8, kvGroups };
    await using engine = new Engine({ ...sizes, pipelineDepth: 2, executor: { execute } });
    engine.submit({ prompt: prompt(6), grammar: new FakeGrammar(), maxTokens: 4 });
    for (let i = 0; i < 20; i++) {
      engine.step();
      pending.shift()?.();
      await settled();
    }
    expect(seen).toEqual([
      [1, 3],
      [1, 3],
      [1, 3],
      [1, 0],
    ]);
  });
});
