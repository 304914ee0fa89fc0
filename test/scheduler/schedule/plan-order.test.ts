// Plans are updated in their order, in every order of calls; an empty plan may be updated before
// the older plans.
import { describe, expect, it } from 'vitest';
import { BlockstepError } from '../../../src/base/errors.js';
import type { SchedulerOptions } from '../../../src/scheduler/options/options.js';
import type { Plan } from '../../../src/scheduler/plan/plan.js';
import { replayInputs } from '../../../src/scheduler/replay/log-replay.js';
import type { Scheduler } from '../../../src/scheduler/scheduler.js';
import { codeOf, makeScheduler, NO_RESULT, prompt, Random } from '../../support/driver.js';
import { MemorySink } from '../../support/recorded-log.js';

/** A scheduler with one request that always has a token to compute. */
function endless(options: Partial<SchedulerOptions>): Scheduler {
  const scheduler = makeScheduler({ maxModelLen: 2048, numBlocks: 600, ...options });
  scheduler.add({ id: 'a', prompt: prompt(4), maxTokens: 2000 });
  return scheduler;
}

function plan(scheduler: Scheduler, empty: boolean): Plan {
  if (empty) scheduler.pause('all');
  else scheduler.resume();
  const made = scheduler.schedule();
  expect(made.totalTokens === 0).toBe(empty);
  return made;
}

function update(scheduler: Scheduler, which: Plan): void {
  const counts = Int32Array.from(which.maxOutputTokens.subarray(0, which.numRequests));
  const result = which.totalTokens === 0 ? NO_RESULT : { tokens: counts, counts };
  expect(scheduler.update(which, result).length).toBe(which.numRequests);
}

/** Steps that wait for their update, by the rule as `Scheduler.schedule` tells it. */
class Rule {
  waiting: { step: number; empty: boolean }[] = [];
  constructor(readonly pipelineDepth: number) {}

  get isFull(): boolean {
    return this.waiting.filter(({ empty }) => !empty).length >= this.pipelineDepth;
  }

  schedule(step: number, empty: boolean): void {
    const oldest = this.waiting.find((each) => each.empty);
    if (this.waiting.length >= this.pipelineDepth && oldest) this.#drop(oldest.step);
    this.waiting.push({ step, empty });
  }

  allows(step: number): boolean {
    const which = this.waiting.find((each) => each.step === step);
    return which !== undefined && (which.empty || this.waiting.find(({ empty }) => !empty) === which);
  }

  update(step: number): void {
    this.waiting = this.waiting.filter((each) => each.step > step || (!each.empty && each.step < step));
  }

  #drop(step: number): void {
    this.waiting = this.waiting.filter((each) => each.step !== step);
  }
}

for (const pipelineDepth of [1, 2, 3] as const) {
  describe(`depth ${pipelineDepth}: plans`, () => {
    it('are updated, or refused, as the rule says, in every order', () => {
      const seen = { updated: 0, emptyFirst: 0, emptyLate: 0, refused: 0, full: 0 };
      for (let seed = 0; seed < 40; seed++) {
        const random = new Random(seed);
        const scheduler = endless({ pipelineDepth });
        const rule = new Rule(pipelineDepth);
        const plans: Plan[] = [];
        for (let i = 0; i < 60; i++) {
          if (random.chance(50)) {
            if (rule.isFull) {
              expect(codeOf(() => scheduler.schedule())).toBe('ERR_BLOCKSTEP_PIPELINE_FULL');
              seen.full++;
              continue;
            }
            const made = plan(scheduler, random.chance(50));
            rule.schedule(made.step, made.totalTokens === 0);
            plans.push(made);
          }
          // A plan that waits keeps its object.
          for (const { step } of rule.waiting) expect(plans[step].step).toBe(step);
          const step = plans.length - 1 - random.below(5);
          if (step < 0 || plans[step].step !== step) continue;
          const which = plans[step];
          if (!rule.allows(step)) {
            expect(codeOf(() => scheduler.update(which, NO_RESULT))).toBe('ERR_BLOCKSTEP_PLAN_ORDER');
            expect(codeOf(() => scheduler.failStep(which))).toBe('ERR_BLOCKSTEP_PLAN_ORDER');
            seen.refused++;
            continue;
          }
          const isEmpty = which.totalTokens === 0;
          if (isEmpty && rule.waiting[0].step < step) seen.emptyFirst++;
          if (isEmpty && step < plans.length - 1) seen.emptyLate++;
          update(scheduler, which);
          rule.update(step);
          seen.updated++;
        }
        scheduler.verify();
        scheduler.dispose();
      }
      const least = pipelineDepth === 1 ? { emptyFirst: 0, emptyLate: 0 } : { emptyFirst: 20, emptyLate: 20 };
      expect(seen.updated).toBeGreaterThan(200);
      expect(seen.refused).toBeGreaterThan(100);
      expect(seen.full).toBeGreaterThan(20);
      expect(seen.emptyFirst).toBeGreaterThanOrEqual(least.emptyFirst);
      expect(seen.emptyLate).toBeGreaterThanOrEqual(least.emptyLate);
    });
  });
}

describe('an empty plan between two others', () => {
  function three(options: Partial<SchedulerOptions> = {}): { scheduler: Scheduler; plans: Plan[] } {
    const scheduler = endless({ pipelineDepth: 2, ...options });
    const plans = [plan(scheduler, false), plan(scheduler, true)];
    return { scheduler, plans };
  }

  it('is updated in its order, before and after the newer one was scheduled', () => {
    const { scheduler, plans } = three();
    update(scheduler, plans[0]);
    plans.push(plan(scheduler, false));
    update(scheduler, plans[1]);
    update(scheduler, plans[2]);
    scheduler.verify();
  });

  it('is updated at once, before the older one', () => {
    const { scheduler, plans } = three();
    update(scheduler, plans[1]);
    update(scheduler, plans[0]);
    scheduler.verify();
  });

  it('is updated once, and not behind a newer one; the message says which are due', () => {
    const { scheduler, plans } = three();
    update(scheduler, plans[1]);
    const message = (which: Plan): string => {
      try {
        update(scheduler, which);
      } catch (error) {
        if (error instanceof BlockstepError) return error.message;
      }
      throw new Error('it was taken');
    };
    expect(message(plans[1])).toContain(
      'expected the plan of step 0, got the plan of step 1, which does not wait for its update any more',
    );
    update(scheduler, plans[0]);
    plans.push(plan(scheduler, true), plan(scheduler, false));
    update(scheduler, plans[3]);
    expect(message(plans[2])).toContain('expected no plan: none waits for its update');
    scheduler.verify();
  });

  it('brings the rows that wait for an update, whenever it is updated', () => {
    let now = 0;
    const { scheduler, plans } = three({ now: () => now, deadlines: { grammar: 5 } });
    const grammar = { ready: () => false, acceptTokens: () => true, validateTokens: () => 0 };
    scheduler.add({ id: 'g', prompt: prompt(4), maxTokens: 3, grammar });
    update(scheduler, plans[0]);
    now = 10;
    const newer = plan(scheduler, false);
    const outputs = scheduler.update(plans[1], NO_RESULT);
    expect(outputs.requests.slice(0, outputs.length).map(({ id }) => id)).toEqual(['g']);
    update(scheduler, newer);
  });

  it('is updated at the same point by a replay of its log', () => {
    // The plans that are updated before the newer plan is scheduled, and behind that.
    const orders = [
      [[0], [1, 2]],
      [[1, 0], [2]],
      [[0], [2]],
    ];
    for (const [before, after] of orders) {
      const log = new MemorySink();
      const { scheduler, plans } = three({ log });
      for (const at of before) update(scheduler, plans[at]);
      plans.push(plan(scheduler, false));
      for (const at of after) update(scheduler, plans[at]);
      const replayed = replayInputs(log.bytes);
      expect(replayed.digest()).toBe(scheduler.digest());
      expect(replayed.stats().generationTokens).toBe(scheduler.stats().generationTokens);
      replayed.dispose();
    }
  });
});
