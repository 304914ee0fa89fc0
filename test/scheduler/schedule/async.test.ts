// Steps in flight: placeholders, drafts, forced resets; every text is that of depth 1.
import { describe, expect, it } from 'vitest';
import type { SchedulerOptions } from '../../../src/scheduler/options/options.js';
import { codeOf, Driver, leftovers, prompt, Random } from '../../support/driver.js';

const NO_RESULT = { tokens: new Int32Array(0), counts: new Int32Array(0) };

describe('steps in flight', () => {
  it('are at most pipelineDepth, and are updated in the order of schedule', () => {
    for (const pipelineDepth of [1, 2, 3] as const) {
      const driver = new Driver({ pipelineDepth });
      driver.add({ id: 'a', maxTokens: 20 });
      const plans = Array.from({ length: pipelineDepth }, () => driver.schedule());
      expect(new Set(plans).size).toBe(pipelineDepth);
      expect(codeOf(() => driver.scheduler.schedule())).toBe('ERR_BLOCKSTEP_PIPELINE_FULL');
      const counts = Int32Array.of(1);
      const late = plans[pipelineDepth - 1];
      if (pipelineDepth > 1) {
        expect(codeOf(() => driver.scheduler.update(late, { tokens: counts, counts }))).toBe(
          'ERR_BLOCKSTEP_PLAN_ORDER',
        );
      }
      driver.update();
      expect(codeOf(() => driver.scheduler.failStep(plans[0]))).toBe('ERR_BLOCKSTEP_PLAN_ORDER');
      driver.run();
    }
  });

  it('a plan stays readable until the schedule after its update', () => {
    const driver = new Driver({ pipelineDepth: 2 });
    driver.add({ id: 'a', maxTokens: 20 });
    const first = driver.schedule();
    driver.schedule();
    driver.update();
    expect([first.step, first.numRequests, first.numScheduledTokens[0]]).toEqual([0, 1, 8]);
  });

  it('expect one placeholder for each token under way, and settle it when the token comes', () => {
    const driver = new Driver({ pipelineDepth: 3 });
    const handle = driver.add({ id: 'a', prompt: prompt(8), maxTokens: 20 });
    const request = driver.request(handle);
    const seen: number[][] = [];
    for (let i = 0; i < 3; i++) {
      driver.schedule();
      seen.push([request.numTokens, request.numComputedTokens, request.numOutputPlaceholders]);
    }
    for (let i = 0; i < 3; i++) {
      driver.update();
      seen.push([request.numTokens, request.numComputedTokens, request.numOutputPlaceholders]);
    }
    expect(seen).toEqual([
      [8, 8, 1],
      [8, 9, 2],
      [8, 10, 3],
      [9, 10, 2],
      [10, 10, 1],
      [11, 10, 0],
    ]);
  });

  it('of an unfinished prompt expect nothing', () => {
    const driver = new Driver({ pipelineDepth: 2, maxNumBatchedTokens: 5 });
    const handle = driver.add({ id: 'a', prompt: prompt(12), maxTokens: 3 });
    driver.schedule();
    driver.schedule();
    expect(driver.request(handle).numOutputPlaceholders).toBe(0);
    driver.run();
    expect(driver.text(handle)).toEqual(driver.model.text(handle, 3));
  });

  it('count drafts as placeholders, and take the rejected ones back', () => {
    const driver = new Driver({ pipelineDepth: 2, numSpeculativeTokens: 2 });
    const handle = driver.add({ id: 'a', prompt: prompt(8), maxTokens: 20 });
    driver.schedule();
    const plan = driver.schedule();
    expect([plan.numScheduledTokens[0], plan.numDraftTokens[0]]).toEqual([3, 2]);
    expect([...plan.draftTokens.subarray(0, 2)]).toEqual([-1, -1]);
    const request = driver.request(handle);
    expect(request.numOutputPlaceholders).toBe(4);
    driver.update();
    driver.update();
    expect(request.numOutputPlaceholders).toBe(0);
    expect(request.numComputedTokens).toBe(request.numTokens - 1);
  });

  it('depth 2: never schedule beyond the last token that the request may generate', () => {
    const driver = new Driver({ pipelineDepth: 2 });
    const handle = driver.add({ id: 'a', maxTokens: 2 });
    expect([driver.schedule().totalTokens, driver.schedule().totalTokens]).toEqual([8, 1]);
    driver.update();
    expect(driver.schedule().totalTokens).toBe(0);
    driver.run();
    expect(driver.text(handle)).toHaveLength(2);
    expect(driver.scheduler.stats().droppedOutputs).toBe(0);
  });

  it('bring stale frames of a stopped request, which are dropped and counted', () => {
    const driver = new Driver({ pipelineDepth: 3 }, { tokenAt: () => 2 });
    const handle = driver.add({ id: 'a', maxTokens: 20, eosTokenId: 2 });
    for (let i = 0; i < 3; i++) driver.schedule();
    driver.update();
    const fresh = driver.add({ id: 'a', prompt: prompt(3, 5), maxTokens: 3 });
    expect(fresh % 2 ** 21).toBe(handle % 2 ** 21);
    driver.schedule();
    driver.update();
    driver.update();
    expect(driver.scheduler.stats().droppedOutputs).toBe(2);
    driver.run();
    expect([driver.text(handle), driver.text(fresh)]).toEqual([[2], [2, 2, 2]]);
    expect([driver.ends.get(handle), driver.ends.get(fresh)]).toEqual([['stop'], ['length']]);
  });

  it('an empty plan may be updated, out of order too, or left alone', () => {
    const driver = new Driver({ pipelineDepth: 2 });
    driver.add({ id: 'a', maxTokens: 1 });
    driver.schedule();
    const empty = driver.schedule();
    expect(empty.totalTokens).toBe(0);
    expect(driver.scheduler.update(empty, NO_RESULT).length).toBe(0);
    expect(driver.schedule().totalTokens).toBe(0);
    driver.run();
  });
});

/** Texts and ends of a workload of its own, by id; the same calls at every depth. */
function lives(seed: number, options: Partial<SchedulerOptions>): Map<string, string> {
  const random = new Random(seed);
  const driver = new Driver({ numBlocks: 18, maxNumBatchedTokens: 20, maxNumSeqs: 5, ...options });
  const handles = new Map<string, number>();
  for (let i = 0; i < 14; i++) {
    const seedOfPrompt = random.below(3);
    const input = { prompt: prompt(2 + random.below(22), seedOfPrompt), maxTokens: 1 + random.below(24) };
    handles.set(`r${i}`, driver.add({ id: `r${i}`, ...input, priority: random.below(3), arrivalTime: i }));
  }
  const aborted = new Set(['r3', 'r7', 'r11'].map((id, i) => `${id}@${2 + 3 * i}`));
  for (let step = 0; driver.scheduler.hasWork(); step++) {
    for (const mark of aborted) if (mark.endsWith(`@${step}`)) driver.abort(mark.split('@')[0]);
    driver.step();
    driver.scheduler.verify();
  }
  expect(leftovers(driver.scheduler)).toEqual([]);
  expect(driver.scheduler.stats().numPreemptions).toBeGreaterThan(0);
  const seen = [...handles].map(([id, handle]): [string, string] => {
    const [end] = driver.ends.get(handle) as string[];
    expect(driver.text(handle)).toEqual(driver.model.text(handle, driver.text(handle).length));
    // When an abort strikes depends on the depth, so an aborted text is compared with the model alone.
    return [id, end === 'abort' ? 'abort' : `${end} ${driver.text(handle).join()}`];
  });
  return new Map(seen.filter(([id]) => !['r3', 'r7', 'r11'].includes(id)));
}

describe('every text is that of depth 1, under preemption, aborts and shared prefixes', () => {
  for (const policy of ['fcfs', 'priority'] as const) {
    for (const numSpeculativeTokens of [0, 2]) {
      it(`policy ${policy}, ${numSpeculativeTokens} drafts`, () => {
        for (let seed = 0; seed < 8; seed++) {
          const options = { policy, numSpeculativeTokens };
          const expected = lives(seed, { ...options, pipelineDepth: 1, numSpeculativeTokens: 0 });
          for (const pipelineDepth of [1, 2, 3] as const) {
            expect(lives(seed, { ...options, pipelineDepth })).toEqual(expected);
          }
        }
      });
    }
  }
});

describe('a forced reset with steps in flight', () => {
  for (const pipelineDepth of [1, 2, 3] as const) {
    for (const numSpeculativeTokens of [0, 3]) {
      it(`loses no token: depth ${pipelineDepth}, ${numSpeculativeTokens} drafts, after any step`, () => {
        for (let at = 1; at < 12; at++) {
          const driver = new Driver({ pipelineDepth, numSpeculativeTokens, maxNumBatchedTokens: 12 });
          const inputs = [9, 3, 14].map((length, i) => ({ id: `r${i}`, prompt: prompt(length, i) }));
          const handles = inputs.map((input) => driver.add({ ...input, maxTokens: 15 }));
          for (let i = 0; i < at; i++) driver.step();
          while (driver.inFlight.length < pipelineDepth && driver.schedule().totalTokens > 0);
          const { ok, preempted } = driver.scheduler.resetPrefixCache({ resetRunning: true });
          expect(ok).toBe(true);
          expect(preempted.length).toBe(new Set(preempted).size);
          driver.scheduler.verify();
          driver.run();
          for (const handle of handles) expect(driver.text(handle)).toEqual(driver.model.text(handle, 15));
          expect(leftovers(driver.scheduler)).toEqual([]);
        }
      });
    }
  }

  it('twice within one pipeline, with new steps between, loses none either', () => {
    const driver = new Driver({ pipelineDepth: 3, numSpeculativeTokens: 2 });
    const handle = driver.add({ id: 'a', maxTokens: 20 });
    for (let i = 0; i < 4; i++) {
      driver.schedule();
      driver.scheduler.resetPrefixCache({ resetRunning: true });
      if (driver.inFlight.length === 3) driver.update();
      driver.scheduler.verify();
    }
    driver.run();
    expect(driver.text(handle)).toEqual(driver.model.text(handle, 20));
  });
});

describe('a request admitted again while its outputs are in flight', () => {
  it('depth 3: drafts rejected from its first time do not take back what it computed since', () => {
    const options = { pipelineDepth: 3, numSpeculativeTokens: 6, numBlocks: 6, enablePrefixCaching: false };
    const driver = new Driver(options as Partial<SchedulerOptions>);
    const first = driver.add({ id: 'first', prompt: prompt(1, 1), maxTokens: 9 });
    const x = driver.add({ id: 'x', prompt: prompt(1), maxTokens: 9 });
    driver.run(100, () => {
      driver.scheduler.verify();
      return driver.scheduler.hasWork();
    });
    expect(driver.text(first)).toEqual(driver.model.text(first, 9));
    expect(driver.text(x)).toEqual(driver.model.text(x, 9));
  });

  it.each([
    [true, 39],
    [false, 42],
  ])('depth 3, keepRecomputed %s: %i tokens are computed until both have their texts', (on, expected) => {
    const options = { pipelineDepth: 3, numSpeculativeTokens: 3, numBlocks: 6 } as const;
    const deviations = on || ['keepRecomputed'];
    const driver = new Driver({ ...options, enablePrefixCaching: false, deviations });
    const handles = [1, 2].map((length) =>
      driver.add({ id: `r${length}`, prompt: prompt(length, 2 - length), maxTokens: 5 }),
    );
    let tokens = 0;
    const { scheduler } = driver;
    const schedule = scheduler.schedule.bind(scheduler);
    scheduler.schedule = () => {
      const plan = schedule();
      tokens += plan.totalTokens;
      return plan;
    };
    driver.run();
    for (const handle of handles) expect(driver.text(handle)).toEqual(driver.model.text(handle, 5));
    expect(scheduler.stats().numPreemptions).toBeGreaterThan(0);
    expect(tokens).toBe(expected);
  });
});
