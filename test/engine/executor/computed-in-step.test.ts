// `computedInStep` finds the entries that read what another entry of the same step computes.
import { describe, expect, it } from 'vitest';
import type { HitInStep } from '../../../src/engine/executor/computed-in-step.js';
import { computedInStep, type ExecutorPlan, type StepTables } from '../../../src/index.js';
import { AttentiveExecutor, moody } from './attentive-executor.js';
import { AttentiveLife } from './attentive-life.js';

/** The same, token by token: which slots each entry reads, and which other entry of the step writes them. */
function bruteForce(plan: ExecutorPlan, tables: StepTables, blockSize: number): HitInStep[] {
  const writers = new Map<number, number>();
  for (let i = 0; i < plan.numRequests; i++)
    for (let t = tables.queryStart[i]; t < tables.queryStart[i + 1]; t++)
      writers.set(Number(tables.slotMapping[t]), i);
  const hits: HitInStep[] = [];
  for (let entry = 0; entry < plan.numRequests; entry++) {
    for (let p = 0; p < plan.numComputedTokens[entry]; p++) {
      const index = Math.floor(p / blockSize);
      const block = tables.blockTable[entry * tables.maxBlocksPerRow + index];
      const provider = writers.get(block * blockSize + (p % blockSize));
      if (provider === undefined || provider === entry) continue;
      const last = hits.at(-1);
      if (last?.entry !== entry || last.index !== index) hits.push({ entry, index, block, provider });
    }
  }
  return hits;
}

describe('computedInStep', () => {
  it('finds what a search token by token finds, and whoever computes a block stands in front', async () => {
    const wrong: string[] = [];
    let numHits = 0;
    for (let seed = 0; seed < 30; seed++) {
      let check: AttentiveExecutor['onStep'] = () => {};
      const life = new AttentiveLife(seed, (shape, random) => {
        const executor = new AttentiveExecutor(shape);
        executor.mood = moody(random, 10);
        executor.onStep = (plan, tables) => check(plan, tables);
        return executor;
      });
      const { blockSize } = life.engine.scheduler.config;
      check = (plan, tables) => {
        const hits = computedInStep(plan, tables, blockSize);
        const expected = bruteForce(plan, tables, blockSize);
        numHits += hits.length;
        if (JSON.stringify(hits) !== JSON.stringify(expected)) wrong.push(`seed ${seed}, step ${plan.step}`);
        if (hits.some(({ entry, provider }) => provider > entry)) wrong.push(`seed ${seed}: provider behind`);
      };
      await life.run(120);
      life.engine.dispose();
    }
    expect(wrong).toEqual([]);
    expect(numHits).toBeGreaterThan(50);
  });
});
