// Admissions that are padded with drafts (`padDecode`) have right texts with steps in flight; the
// faults that are found there.
import { describe, expect, it } from 'vitest';
import type { Plan, SchedulerOptions } from '../../../src/index.js';
import type { WithRules } from '../../../src/scheduler/options/single-rules.js';
import { seeded } from '../../support/core-bench.js';
import { live } from './lives.js';
import { ReferenceDriver, type Tamper } from './support.js';

const SEEDS = Array.from({ length: 36 }, (_, seed) => seed);

/** A life whose prompts are mostly cached, under the rule `padDecode`, with steps in flight. @returns the driver, and how many entries were padded */
async function padded(
  seed: number,
  options: Partial<WithRules<SchedulerOptions>>,
  onMismatch: 'fail-step' | 'report',
  tamper: Tamper = () => {},
) {
  const next = seeded(seed);
  const driver = new ReferenceDriver(
    {
      ...{
        pipelineDepth: (2 + (seed % 2)) as 2 | 3,
        numBlocks: 20 + next(16),
        blockSize: [1, 2, 4][next(3)],
      },
      ...{ maxNumSeqs: 2 + next(5), maxNumBatchedTokens: 16 + next(30), maxModelLen: 48 },
      ...{
        numSpeculativeTokens: 1 + next(4),
        speculativeMethod: (['ngram', 'eagle', 'draft_model'] as const)[next(3)],
      },
      ...{
        freeOrder: (['tail', 'unhashedFirst'] as const)[next(2)],
        admissionLookahead: next(2) === 0,
        draftSlots: next(2),
      },
      ...{
        preemptedOutputs: (['deliver', 'await', 'discard'] as const)[next(3)],
        padDecode: true,
        ...options,
      },
    },
    { seed: next(1000), draftErrorRate: [0, 0.3, 1][next(3)], onMismatch },
  );
  let count = 0;
  driver.tamper = (plan, tables) => {
    count += paddedEntries(plan).length;
    tamper(plan, tables);
  };
  await live(driver, next, 300);
  return { driver, count };
}

/** Entries of admissions that have drafts: nobody has made these. */
function paddedEntries({ kinds, numDraftTokens, numRequests }: Plan): number[] {
  return Array.from({ length: numRequests }, (_, i) => i).filter(
    (i) => kinds[i] !== 0 && numDraftTokens[i] > 0,
  );
}

describe('admissions with drafts that nobody made, with steps in flight', () => {
  it('have right texts, and nothing is found in the memory', async () => {
    const counts: number[] = [];
    for (const seed of SEEDS) {
      const { driver, count } = await padded(seed, {}, 'fail-step');
      for (const [handle, text] of driver.texts)
        expect(text, `seed ${seed}`).toEqual(driver.expectedText(handle));
      expect(driver.executor.faults).toEqual([]);
      expect(driver.scheduler.core.freeBlocks).toBe(driver.scheduler.config.numBlocks - 1);
      counts.push(count);
      driver.dispose();
    }
    for (const depth of [2, 3])
      expect(counts.filter((count, seed) => 2 + (seed % 2) === depth && count > 0).length).toBeGreaterThan(9);
  });

  it('are found where the plan does not say that the drafts are none', async () => {
    let planted = 0;
    for (const seed of SEEDS) {
      const steps: number[] = [];
      const { driver } = await padded(seed, {}, 'report', (plan) => {
        for (const i of paddedEntries(plan)) {
          plan.numInvalidDraftTokens[i] = 0;
          steps.push(plan.step);
        }
      });
      const found = driver.executor.faults.filter(({ kind }) => kind === 'missing-draft');
      expect([...new Set(found.map(({ step }) => step))], `seed ${seed}`).toEqual([...new Set(steps)]);
      planted += steps.length;
      driver.dispose();
    }
    expect(planted).toBeGreaterThan(50);
  });

  it("are refused where their tokens were cut and their drafts were not: vLLM's error, without `padWholeRows`", async () => {
    const options = {
      longPrefillTokenThreshold: 2,
      numSpeculativeTokens: 3,
      deviations: ['padWholeRows'],
    };
    let refused = 0;
    for (const seed of SEEDS.slice(0, 12)) {
      const seen: number[] = [];
      const run = padded(seed, options, 'report', (plan) => seen.push(...paddedEntries(plan)));
      await run.then(
        ({ driver }) => driver.dispose(),
        (error: Error) => {
          expect(error.message).toMatch(
            /^numDraftTokens of entry \d+ must be .* less than numScheduledTokens/,
          );
          refused++;
        },
      );
      if (seen.length > 0) expect(refused).toBeGreaterThan(0);
    }
    expect(refused).toBeGreaterThan(5);
  });
});
