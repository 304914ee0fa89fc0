// The blocks that windows and states keep while steps are in flight.
import { describe, expect, it, onTestFinished } from 'vitest';
import { type KvGroupOptions, type Plan, Scheduler, type SchedulerOptions } from '../../../src/index.js';
import { carryRules, type WithRules } from '../../../src/scheduler/options/single-rules.js';

const OPTIONS = {
  ...{ blockSize: 4, numBlocks: 60, maxModelLen: 64, maxNumBatchedTokens: 8 },
  pipelineDepth: 2,
  deadlines: false,
  windowBasis: 'processed',
} as const;

function begun(
  kvGroups: KvGroupOptions[],
  length: number,
  more: Partial<WithRules<SchedulerOptions>> = {},
): Scheduler {
  const scheduler = new Scheduler(carryRules({ ...OPTIONS, kvGroups, ...more }));
  onTestFinished(() => scheduler.dispose());
  scheduler.add({ id: 'a', prompt: Int32Array.from({ length }, (_, i) => 100 + i), maxTokens: 9 });
  return scheduler;
}

function bring(scheduler: Scheduler, plan: Plan): void {
  const counts = Int32Array.from(plan.maxOutputTokens.subarray(0, plan.numRequests));
  const total = counts.reduce((sum, count) => sum + count, 0);
  scheduler.update(plan, { tokens: new Int32Array(total).fill(7), counts });
}

/** The places of the only request's row that hold a block. */
function held(scheduler: Scheduler, group: number): number[] {
  const [{ slot }] = scheduler.inspect().requests;
  return [...scheduler.core.blocks(slot, group)].flatMap((id, place) => (id === 0 ? [] : place));
}

describe('a window with a step in flight', () => {
  const kvGroups: KvGroupOptions[] = [{ type: 'sliding', window: 2 }, { type: 'full' }];

  it('keeps what that step reads, and lets go of it when the step is over', () => {
    const scheduler = begun(kvGroups, 24);
    const first = scheduler.schedule();
    const second = scheduler.schedule();
    expect(held(scheduler, 0)).toEqual([0, 1, 2, 3]);
    bring(scheduler, first);
    const third = scheduler.schedule();
    // Behind the first step, of 8 tokens, token 7 is needed.
    expect(held(scheduler, 0)).toEqual([1, 2, 3, 4, 5]);
    bring(scheduler, second);
    bring(scheduler, third);
  });

  it('lets go by what is scheduled with the other basis', () => {
    const scheduler = begun(kvGroups, 24, { windowBasis: 'scheduled' });
    const first = scheduler.schedule();
    const second = scheduler.schedule();
    expect(held(scheduler, 0)).toEqual([1, 2, 3]);
    bring(scheduler, first);
    bring(scheduler, second);
  });

  it('keeps it also where the last blocks of the pool are taken', () => {
    // Six blocks of full attention and three of the window are all there are: nothing is left for drafts.
    const options = { numBlocks: 13, maxModelLen: 24, numSpeculativeTokens: 2, maxNumBatchedTokens: 4 };
    const scheduler = begun(kvGroups, 22, { ...options, speculativeMethod: 'eagle' });
    const plans = [scheduler.schedule()];
    for (let step = 0; step < 5; step++) {
      plans.push(scheduler.schedule());
      const [before, now] = plans;
      const [computed] = now.numComputedTokens;
      const read = computed - before.numScheduledTokens[0];
      const first = Math.floor(Math.max(0, read - 1) / 4);
      expect(held(scheduler, 0)[0]).toBe(first);
      bring(scheduler, plans.shift() as Plan);
    }
  });
});

describe('states in mode align with steps in flight', () => {
  const kvGroups: KvGroupOptions[] = [{ type: 'mamba', mode: 'align' }, { type: 'full' }];

  /** Most states that a prompt of seven steps holds. */
  function most(dropStates: boolean): number {
    const scheduler = begun(kvGroups, 56, { deviations: dropStates || ['dropStates'] });
    let most = 0;
    let before = scheduler.schedule();
    for (let step = 1; step < 7; step++) {
      const plan = scheduler.schedule();
      most = Math.max(most, held(scheduler, 0).length);
      bring(scheduler, before);
      before = plan;
    }
    return most;
  }

  it('are let go when no step in flight goes on from them', () => {
    expect(most(true)).toBe(3);
  });

  it('off: each step of a prompt leaves one behind, as in vLLM', () => {
    expect(most(false)).toBe(7);
  });
});
