// Bugs that simulated lives with groups have found, case by case.
import { describe, expect, it, onTestFinished } from 'vitest';
import { type KvGroupOptions, type Plan, Scheduler, type SchedulerOptions } from '../../../src/index.js';
import { poolTokens, ruledConfig } from '../../../src/scheduler/options/options.js';
import { ViewingConnector } from '../../support/connector/viewing-connector.js';

const OPTIONS = {
  blockSize: 4,
  numBlocks: 60,
  maxModelLen: 64,
  maxNumBatchedTokens: 32,
  deadlines: false,
} as const;

function schedulerOf(kvGroups: KvGroupOptions[], more: Partial<SchedulerOptions> = {}): Scheduler {
  const scheduler = new Scheduler({ ...OPTIONS, kvGroups, ...more });
  onTestFinished(() => scheduler.dispose());
  return scheduler;
}

const prompt = (length: number): Int32Array => Int32Array.from({ length }, (_, i) => 100 + i);

function bring(scheduler: Scheduler, plan: Plan, token: number): void {
  const counts = Int32Array.from(plan.maxOutputTokens.subarray(0, plan.numRequests));
  const total = counts.reduce((sum, count) => sum + count, 0);
  scheduler.update(plan, { tokens: new Int32Array(total).fill(token), counts });
}

/** The rows of the only request. */
function rowOf(scheduler: Scheduler, group: number): number[] {
  const [{ slot }] = scheduler.inspect().requests;
  return [...scheduler.core.blocks(slot, group)];
}

describe('with steps in flight', () => {
  it('a failed step leaves no hash behind of blocks that a later step has let go', () => {
    const scheduler = schedulerOf([{ type: 'sliding', window: 1 }], { pipelineDepth: 2 });
    scheduler.add({ id: 'a', prompt: prompt(8), maxTokens: 4 });
    const first = scheduler.schedule();
    expect(scheduler.core.publishedBlocks).toBe(2);
    const second = scheduler.schedule();
    expect(rowOf(scheduler, 0).slice(0, 2)).toEqual([0, 0]);
    scheduler.failStep(first);
    expect(scheduler.core.publishedBlocks).toBe(0);
    scheduler.failStep(second);
  });

  it('a session whose steps went on behind its answer has what its next chunk needs', () => {
    const kvGroups: KvGroupOptions[] = [
      { type: 'full', blockSize: 1 },
      { type: 'sliding', window: 2, blockSize: 1 },
    ];
    const scheduler = schedulerOf(kvGroups, { pipelineDepth: 3, enablePrefixCaching: false, blockSize: 1 });
    scheduler.add({ id: 'a', prompt: prompt(6), maxTokens: 9, eosTokenId: 7, resumable: true });
    const plans = [scheduler.schedule(), scheduler.schedule(), scheduler.schedule()];
    bring(scheduler, plans[0], 7);
    // The answer is token 6, which the next chunk drops: 8 tokens were counted as computed, 6 are.
    scheduler.addChunk('a', { prompt: prompt(3), maxTokens: 2 });
    for (const plan of plans.slice(1)) bring(scheduler, plan, 1);
    const next = scheduler.schedule();
    const [computed] = next.numComputedTokens;
    const places = rowOf(scheduler, 1).slice(Math.max(0, computed - 1), 9);
    expect(places.filter((block) => block === 0)).toEqual([]);
    expect(computed + next.numScheduledTokens[0]).toBe(9);
  });
});

it.each([15, 16, 17, 18])(
  'a prompt of %i tokens that just fits the pool is admitted with slots for drafts',
  (length) => {
    const scheduler = schedulerOf([{ type: 'full' }, { type: 'sliding', window: 12 }], {
      ...{ blockSize: 2, numBlocks: 20, maxNumBatchedTokens: 16 },
      ...{ numSpeculativeTokens: 4, speculativeMethod: 'draft_model' },
    });
    expect(poolTokens(ruledConfig(scheduler.config))).toBe(18);
    scheduler.add({ id: 'a', prompt: prompt(length), maxTokens: 8 });
    expect(scheduler.freeBlocksToAdmit(scheduler.get('a')!)).toEqual(Float64Array.of(9, 9));
    expect(scheduler.schedule().totalTokens).toBe(Math.min(length, 16));
  },
);

it('a load that gives its blocks to whoever is first in line makes more of its prefix known: it is looked up again', () => {
  const connector = new ViewingConnector();
  const scheduler = schedulerOf([{ type: 'full' }, { type: 'sliding', window: 9 }], {
    ...{ connector, strict: true, policy: 'priority', numBlocks: 12, reserveFullIsl: false },
  });
  // One block of each group has a hash from now on.
  scheduler.add({ id: 'known', prompt: prompt(5), maxTokens: 1 });
  bring(scheduler, scheduler.schedule(), 9);
  connector.match = { numTokens: 8, async: true };
  const loading = scheduler.add({ id: 'loading', prompt: prompt(13), maxTokens: 1, priority: 1 });
  scheduler.update(scheduler.schedule(), { tokens: new Int32Array(0), counts: new Int32Array(0) });
  scheduler.updateTransfers({ finishedReceiving: [{ handle: loading }] });
  connector.match = null;
  scheduler.add({ id: 'first', prompt: prompt(20), maxTokens: 1, priority: 0 });
  const plan = scheduler.schedule();
  expect(scheduler.stats().loadsReclaimed).toBe(1);
  expect(plan.requests[0].id).toBe('first');
  expect(plan.numComputedTokens[0]).toBe(12);
  scheduler.verify();
});

it('the next chunk of a session ends a step where a block ends, so that there is a state to keep', () => {
  const scheduler = schedulerOf([{ type: 'full' }, { type: 'mamba', mode: 'align' }], { pipelineDepth: 1 });
  scheduler.add({ id: 'a', prompt: prompt(5), maxTokens: 1, resumable: true });
  bring(scheduler, scheduler.schedule(), 9);
  bring(scheduler, scheduler.schedule(), 9);
  scheduler.addChunk('a', { prompt: prompt(9), maxTokens: 1 });
  const steps: number[] = [];
  while (scheduler.hasWork() && steps.length < 8) {
    const plan = scheduler.schedule();
    if (plan.numRequests === 0) break;
    steps.push(plan.numScheduledTokens[0]);
    bring(scheduler, plan, 9);
  }
  // From token 5 on: to the end of its block, a whole block, and the rest. One step to token 12 would leave no state behind token 8.
  expect(steps).toEqual([3, 4, 2]);
});

describe('a prefix hit that ends within a chunk', () => {
  const hitOf = (chunk: number, deviations?: false): number => {
    const more = deviations === undefined ? {} : { deviations };
    const scheduler = schedulerOf([{ type: 'chunked', chunk }], more);
    scheduler.add({ id: 'a', prompt: prompt(20), maxTokens: 4 });
    return scheduler.schedule().numComputedTokens[0];
  };

  it('has the blocks of that chunk, which vLLM does not look at', () => {
    // The last chunk begins with token 14; token 12 is in the chunk before, of which nothing is cached.
    expect(hitOf(7)).toBe(0);
    expect(hitOf(7, false)).toBe(12);
  });

  it('needs nothing of whole chunks', () => {
    expect(hitOf(8)).toBe(16);
    expect(hitOf(8, false)).toBe(16);
  });
});

it('a chunk that begins within a block takes one block more than whole chunks do', () => {
  const most = (chunk: number, numBlocks: number): number =>
    poolTokens(
      ruledConfig(
        schedulerOf([{ type: 'chunked', chunk }], { numBlocks, maxNumBatchedTokens: 4, maxModelLen: 64 })
          .config,
      ),
    );
  // A chunk of eight and a step of four take three blocks; so do a chunk of six and a step of four.
  // A chunk that begins inside a block takes one more.
  expect(most(8, 4)).toBe(64);
  expect(most(6, 4)).toBe(12);
  expect(most(6, 5)).toBe(64);
});

describe('a prompt with a state in every block', () => {
  // Twelve blocks: nine for tokens, and the three states that a step of one block holds; or, as vLLM tests it, six and six.
  const options = { numBlocks: 13, maxNumBatchedTokens: 4, maxModelLen: 64 };
  const groups: KvGroupOptions[] = [
    { type: 'mamba', mode: 'all', blockSize: 4 },
    { type: 'full', blockSize: 4 },
  ];
  const most = (capStates: boolean): number =>
    poolTokens(
      ruledConfig(schedulerOf(groups, { ...options, deviations: capStates || ['capStates'] }).config),
    );

  it('is admitted where the states that are held at most fit', () => {
    expect(most(true)).toBe(36);
    const scheduler = schedulerOf(groups, options);
    scheduler.add({ id: 'a', prompt: Int32Array.from({ length: 33 }, (_, i) => i), maxTokens: 1 });
    let computed = 0;
    for (let step = 0; step < 9; step++) {
      const plan = scheduler.schedule();
      computed += plan.totalTokens;
      scheduler.update(plan, {
        tokens: Int32Array.of(7).subarray(0, step < 8 ? 0 : 1),
        counts: Int32Array.of(step < 8 ? 0 : 1),
      });
    }
    expect(computed).toBe(33);
    expect(scheduler.numUnfinished).toBe(0);
  });

  it('off: what would wait for ever is refused', () => {
    expect(most(false)).toBe(24);
  });
});

describe('drafts beside states', () => {
  const states = (mode: 'align' | 'all'): KvGroupOptions[] => [{ type: 'full' }, { type: 'mamba', mode }];
  const make = (mode: 'align' | 'all', options: object) => () =>
    schedulerOf(states(mode), { numBlocks: 40, blockSize: 4, maxNumBatchedTokens: 16, ...options });

  it('are refused where two steps in flight count on them', () => {
    expect(make('align', { numSpeculativeTokens: 1, pipelineDepth: 3 })).toThrow(
      'pipelineDepth must be 1 or 2 with drafts and a group of type mamba, got 3',
    );
    make('align', { numSpeculativeTokens: 1, pipelineDepth: 2 })();
    make('align', { pipelineDepth: 3 })();
  });

  it('are refused with align where they reach beyond one more block', () => {
    expect(make('align', { numSpeculativeTokens: 4 })).toThrow(
      'numSpeculativeTokens must be less than kvGroups[1].blockSize (4) with Mamba in mode align, got 4',
    );
    make('align', { numSpeculativeTokens: 3 })();
    make('all', { numSpeculativeTokens: 4 })();
  });

  it('off: vLLM refuses neither', () => {
    make('align', { numSpeculativeTokens: 4, pipelineDepth: 3, deviations: ['keepDraftWindows'] })();
  });
});

describe('a state in the middle of a block that the next step goes past', () => {
  it.each([true, false])(
    'would be found for its end, so no step begins there with wholeStates: %s',
    (wholeStates) => {
      const scheduler = schedulerOf([{ type: 'full' }, { type: 'mamba', mode: 'align' }], {
        ...{ numSpeculativeTokens: 1, speculativeMethod: 'eagle', maxNumBatchedTokens: 7 },
        deviations: wholeStates || ['wholeStates'],
      });
      // Beside the other request the first step has room for three tokens of this one, which end in no block.
      scheduler.add({ id: 'other', prompt: prompt(4).map((token) => token + 900), maxTokens: 2 });
      scheduler.add({ id: 'a', prompt: prompt(7), maxTokens: 4 });
      const first = scheduler.schedule();
      expect([...first.numScheduledTokens.subarray(0, first.numRequests)]).toEqual(
        wholeStates ? [4] : [4, 3],
      );
      bring(scheduler, first, 7);
      const second = scheduler.schedule();
      expect([second.numComputedTokens[1], second.numScheduledTokens[1]]).toEqual([wholeStates ? 0 : 3, 4]);
      bring(scheduler, second, 7);
      while (scheduler.hasWork()) bring(scheduler, scheduler.schedule(), 7);
      // A drafter's hit is one block shorter than the cached blocks. Without wholeStates its state
      // is that of three tokens.
      scheduler.add({ id: 'b', prompt: Int32Array.of(...prompt(7), 7, 7, 7, 7), maxTokens: 1 });
      const third = scheduler.schedule();
      expect(third.requests[third.numRequests - 1]?.numCachedTokens).toBe(4);
      scheduler.failStep(third);
    },
  );
});

describe('at depth 3, a request that was preempted while steps ran that still bring its tokens', () => {
  it('ends its step at the end of the block in which it begins, where its state is published', () => {
    const groups: KvGroupOptions[] = [{ type: 'full' }, { type: 'mamba', mode: 'align' }];
    const scheduler = schedulerOf(groups, { numBlocks: 8, pipelineDepth: 3 });
    const planOfB = (): number[] => {
      const plan = scheduler.schedule();
      plans.push(plan);
      const at = plan.requests.slice(0, plan.numRequests).findIndex((request) => request?.id === 'b');
      return at < 0 ? [] : [plan.numComputedTokens[at], plan.numScheduledTokens[at]];
    };
    const plans: Plan[] = [];
    const update = (): void => bring(scheduler, plans.shift() as Plan, 7);
    scheduler.add({ id: 'a', prompt: prompt(4).map((token) => token + 900), maxTokens: 3 });
    scheduler.add({ id: 'b', prompt: prompt(7), maxTokens: 8 });
    expect(planOfB()).toEqual([0, 4]);
    update();
    // The pool is too small for both until `a` has ended.
    expect(planOfB()).toEqual([]);
    expect(planOfB()).toEqual([4, 3]);
    update();
    expect(planOfB()).toEqual([7, 1]);
    expect(planOfB()).toEqual([]);
    // A plan of nothing is answered at once.
    bring(scheduler, plans.pop() as Plan, 7);
    expect(planOfB()).toEqual([4, 3]);
    update();
    // Token 7 is known, and the step before the preemption brings token 8.
    expect(planOfB()).toEqual([7, 1]);
    while (plans.length > 0) update();
  });
});

// Pinned by: `blocksToZero` in `takenBy` (schedule.ts). Workers that still read such a block end that before the step.
it('a plan names as taken what it zeroes for somebody whose connector failed at its admission', () => {
  const connector = new ViewingConnector();
  connector.throwing.add('alloc');
  const scheduler = schedulerOf([{ type: 'mamba', mode: 'align' }, { type: 'full' }], { connector });
  scheduler.add({ id: 'a', prompt: prompt(9), maxTokens: 2 });
  const { numRequests, blocksToZero, takenBlocks } = scheduler.schedule();
  expect([numRequests, connector.calls.filter((call) => call.startsWith('alloc')).length]).toEqual([0, 1]);
  expect(blocksToZero?.length).toBeGreaterThan(0);
  expect([...takenBlocks].sort()).toEqual([...(blocksToZero ?? [])].sort());
});

describe.each(['fail', 'recompute'] as const)(
  'F21 policy %s: a load that fills no block',
  (loadFailurePolicy) => {
    it.each([false, true])(
      'lacks nothing, and costs nobody anything if it fails; its request left: %s',
      (leaves) => {
        const connector = new ViewingConnector();
        const scheduler = schedulerOf([{ type: 'sliding', window: 1 }], {
          ...{ connector, strict: true, pipelineDepth: 2, loadFailurePolicy },
        });
        // Token 16 reads itself alone, and its block is computed.
        connector.match = { numTokens: 16, async: false };
        const handle = scheduler.add({ id: 'a', prompt: prompt(20), maxTokens: 9 });
        const first = scheduler.schedule();
        connector.match = null;
        const b = scheduler.add({ id: 'b', prompt: prompt(9).fill(5), maxTokens: 9 });
        const second = scheduler.schedule();
        if (leaves) scheduler.abort(handle);
        scheduler.update(
          first,
          { tokens: Int32Array.of(7), counts: Int32Array.of(1) },
          { failedReceiving: [{ handle, step: first.step }] },
        );
        bring(scheduler, second, 7);
        expect(scheduler.getByHandle(b)?.numOutputTokens).toBe(1);
        expect(scheduler.getByHandle(handle)?.numOutputTokens).toBe(leaves ? undefined : 2);
        expect(scheduler.stats()).toMatchObject({ failedLoads: 0, numPreemptions: 0 });
      },
    );
  },
);
