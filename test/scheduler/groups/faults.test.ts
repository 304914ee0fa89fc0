// Faults of vLLM with KV cache groups, one by one.
import { describe, expect, it } from 'vitest';
import type { SchedulerConnector } from '../../../src/connector.js';
import { type Plan, Scheduler, type SchedulerOptions } from '../../../src/index.js';
import { HASH_BYTES, type KvEvent } from '../../../src/scheduler/events/kv-event.js';

const FULL = { type: 'full' } as const;
const prompt = (length: number, from = 1): Int32Array => Int32Array.from({ length }, (_, i) => from + i);

function make(options: Partial<SchedulerOptions>): Scheduler {
  return new Scheduler({
    numBlocks: 64,
    blockSize: 4,
    maxModelLen: 256,
    strict: true,
    deadlines: false,
    ...options,
  });
}

/** Updates a plan with one token for each entry that may have some, the end of text excluded. */
function bring(scheduler: Scheduler, plan: Plan, count = 1): void {
  const counts = Int32Array.from(plan.maxOutputTokens.subarray(0, plan.numRequests), (most) =>
    Math.min(most, count),
  );
  const total = counts.reduce((sum, each) => sum + each, 0);
  scheduler.update(plan, { tokens: new Int32Array(total).fill(7), counts });
}

/** Steps until nothing is left to do. @returns the number of steps */
function finish(scheduler: Scheduler, most = 500): number {
  for (let steps = 0; steps < most; steps++) {
    if (!scheduler.hasWork()) return steps;
    bring(scheduler, scheduler.schedule());
    scheduler.verify();
  }
  return most;
}

/** A connector that can load so many tokens of every request, and whose loads all come. */
function loading(numTokens: number): SchedulerConnector {
  return {
    onNewRequest() {},
    getNumNewMatchedTokens: (_: unknown, local: number) => ({
      numTokens: Math.max(numTokens - local, 0),
      async: false,
    }),
    updateStateAfterAlloc() {},
    buildMetadata: () => ({}),
    updateConnectorOutput() {},
    requestFinished: () => ({ delayFree: false }),
  } as unknown as SchedulerConnector;
}

describe('faults of vLLM with KV cache groups', () => {
  it('G3: with a drafter the published blocks of a window are those that a lookup accepts', () => {
    const hitsOf = (publishMatchable: boolean): number => {
      using scheduler = make({
        kvGroups: [
          { type: 'full', blockSize: 16 },
          { type: 'sliding', window: 5, blockSize: 4 },
        ],
        numSpeculativeTokens: 1,
        speculativeMethod: 'eagle',
        deviations: publishMatchable || ['publishMatchable'],
      });
      for (const id of ['a', 'b']) {
        scheduler.add({ id, prompt: prompt(50), maxTokens: 1 });
        finish(scheduler);
      }
      return scheduler.stats().prefixCacheHits;
    };
    expect(hitsOf(false)).toBe(0);
    expect(hitsOf(true)).toBe(32);
  });

  it('G5: drafts that become fewer do not end anything', () => {
    using scheduler = make({
      kvGroups: [FULL, { type: 'mamba', numSpeculativeBlocks: 3 }],
      numSpeculativeTokens: 3,
      maxNumBatchedTokens: 32,
    });
    scheduler.add({ id: 'a', prompt: prompt(9), maxTokens: 60, eosTokenId: 2 });
    for (let step = 0; scheduler.hasWork(); step++) {
      const plan = scheduler.schedule();
      const numDrafts = step % 4;
      bring(scheduler, plan, 1);
      const counts = new Int32Array(plan.numRequests).fill(numDrafts);
      if (scheduler.hasWork())
        scheduler.updateDraftTokens(plan, { tokens: new Int32Array(numDrafts).fill(9), counts });
      scheduler.verify();
    }
    expect(scheduler.core.freeBlocks).toBe(63);
  });

  it('G6: what a connector could load is refused where steps must end at block ends, and counted', () => {
    using scheduler = make({ kvGroups: [FULL, { type: 'mamba' }], connector: loading(20) });
    scheduler.add({ id: 'a', prompt: prompt(30), maxTokens: 2 });
    const plan = scheduler.schedule();
    expect(plan.numComputedTokens[0]).toBe(0);
    expect(plan.numScheduledTokens[0]).toBe(28);
    bring(scheduler, plan);
    finish(scheduler);
  });

  it('G7: a reset succeeds beside sinks, and forces running requests to begin again', () => {
    using scheduler = make({
      kvGroups: [
        { type: 'sink', sinkTokens: 8 },
        { type: 'sliding', window: 9 },
      ],
    });
    expect(scheduler.core.freeBlocks).toBe(61);
    scheduler.add({ id: 'a', prompt: prompt(20), maxTokens: 4 });
    bring(scheduler, scheduler.schedule());
    expect(scheduler.resetPrefixCache().ok).toBe(false);
    expect(scheduler.resetPrefixCache({ resetRunning: true })).toMatchObject({ ok: true, preempted: ['a'] });
    expect(scheduler.core.publishedBlocks).toBe(0);
    finish(scheduler);
    expect(scheduler.core.freeBlocks).toBe(61);
  });

  it('G8: what the pool can never hold is refused when it is added, and what it can hold runs', () => {
    const groups = [FULL, { type: 'sliding', window: 8 } as const];
    // 48 tokens: 12 blocks of full attention, and at most (8 - 1 + 16) / 4, rounded up, and one more of the window.
    const need = 12 + 7;
    for (const [numBlocks, fits] of [
      [need, false],
      [need + 1, true],
    ] as const) {
      using scheduler = make({ kvGroups: groups, numBlocks, maxModelLen: 48, maxNumBatchedTokens: 16 });
      const add = () => scheduler.add({ id: 'a', prompt: prompt(47), maxTokens: 1 });
      if (!fits) {
        expect(add).toThrow(expect.objectContaining({ code: 'ERR_BLOCKSTEP_UNFIT' }));
        continue;
      }
      add();
      expect(finish(scheduler)).toBeLessThan(10);
    }
  });

  it('G10: an event has as many hashes as tokens of blocks, also where places are not published', () => {
    const events: KvEvent[] = [];
    using scheduler = make({
      kvGroups: [
        { type: 'full', blockSize: 16 },
        { type: 'sliding', window: 5, blockSize: 4 },
      ],
      kvEvents: { onEvents: (told) => void events.push(...told) },
    });
    scheduler.add({ id: 'a', prompt: prompt(40), maxTokens: 1 });
    finish(scheduler);
    const stored = events.filter((event) => event.type === 'stored');
    expect(stored.map(({ group, hashes }) => [group, hashes.length / HASH_BYTES])).toEqual([
      [0, 2],
      [1, 1],
      [1, 1],
    ]);
    for (const { hashes, tokenIds, blockSize } of stored)
      expect(tokenIds.length).toBe((hashes.length / HASH_BYTES) * blockSize);
    expect([...stored[1].tokenIds]).toEqual([13, 14, 15, 16]);
  });

  it('G15: with capDrafts a long prompt ends in a pool of just the size that it needs', () => {
    const preemptionsIn = (numBlocks: number, capDrafts: boolean): [steps: number, preemptions: number] => {
      using scheduler = make({
        kvGroups: [FULL, { type: 'sliding', window: 64 }],
        blockSize: 16,
        numBlocks,
        maxModelLen: 4096,
        maxNumBatchedTokens: 257,
        numSpeculativeTokens: 4,
        speculativeMethod: 'draft_model',
        enablePrefixCaching: false,
        deviations: capDrafts || ['capDrafts', 'endOutgrown', 'refuseUnfit'],
      });
      scheduler.add({ id: 'a', prompt: prompt(3856), maxTokens: 4 });
      return [finish(scheduler, 200), scheduler.stats().numPreemptions];
    };
    expect(preemptionsIn(264, false)).toEqual([200, 13]);
    // The request ends one token later, with `length`: the pool can hold no more of it.
    expect(preemptionsIn(264, true)).toEqual([17, 0]);
  });

  it('a session with states is refused where a step in flight would take them too far', () => {
    for (const [pipelineDepth, isTaken] of [
      [1, true],
      [2, false],
      [3, false],
    ] as const) {
      using scheduler = make({ kvGroups: [FULL, { type: 'mamba', mode: 'all' }], pipelineDepth });
      const add = (): number => scheduler.add({ id: 'a', prompt: prompt(5), maxTokens: 2, resumable: true });
      if (isTaken) expect(add).not.toThrow();
      else
        expect(add).toThrow(/resumable must be false with a group of type mamba, unless pipelineDepth is 1/);
    }
  });
});
