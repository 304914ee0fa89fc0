// Decisions of vLLM with KV cache groups that have a price, and are kept.
import { describe, expect, it } from 'vitest';
import type { KvGroupOptions, Plan, Scheduler } from '../../../src/index.js';
import { makeScheduler, prompt } from '../../support/driver.js';

/** Decisions of vLLM with KV cache groups that have a price, and are kept: docs/kv-groups.md says which. */

const FULL: KvGroupOptions = { type: 'full' };
const STATES: readonly KvGroupOptions[] = [FULL, { type: 'mamba', mode: 'align' }];

function step(scheduler: Scheduler): Plan {
  const plan = scheduler.schedule();
  const counts = Int32Array.from(plan.maxOutputTokens.subarray(0, plan.numRequests));
  scheduler.update(plan, {
    tokens: new Int32Array(counts.reduce((sum, each) => sum + each, 0)).fill(7),
    counts,
  });
  return plan;
}

function finish(scheduler: Scheduler): void {
  while (scheduler.hasWork()) step(scheduler);
}

/** The entries of a plan: id, tokens found, tokens computed. */
function entries(plan: Plan): readonly (readonly [string, number, number])[] {
  return Array.from({ length: plan.numRequests }, (_, i) => {
    const request = plan.requests[i];
    return [request?.id ?? '', request?.numCachedTokens ?? 0, plan.numScheduledTokens[i] ?? 0] as const;
  });
}

describe('a hit on what the same step computes', () => {
  it('is taken for full attention and windows, as with one group', () => {
    for (const kvGroups of [null, [FULL, { type: 'sliding', window: 6 } as const]]) {
      const scheduler = makeScheduler({ kvGroups, strict: true });
      for (const id of ['a', 'b']) scheduler.add({ id, prompt: prompt(18), maxTokens: 1 });
      expect(entries(scheduler.schedule())).toEqual([
        ['a', 0, 18],
        ['b', 16, 2],
      ]);
      scheduler.dispose();
    }
  });

  it('is waited for where it is a state, and whoever stands behind waits too', () => {
    const scheduler = makeScheduler({ kvGroups: [...STATES], strict: true });
    scheduler.add({ id: 'a', prompt: prompt(16), maxTokens: 3 });
    scheduler.add({ id: 'b', prompt: Int32Array.from([...prompt(16), 5, 6]), maxTokens: 3 });
    scheduler.add({ id: 'c', prompt: prompt(9, 3), maxTokens: 3 });
    expect(entries(step(scheduler))).toEqual([['a', 0, 16]]);
    // The step of c ends where a block ends.
    expect(entries(step(scheduler))).toEqual([
      ['a', 0, 1],
      ['b', 16, 2],
      ['c', 0, 8],
    ]);
    scheduler.dispose();
  });
});

describe('a prompt that needs a whole block of the budget', () => {
  /** Steps in which a long prompt waits behind requests that decode, with so large a budget. */
  function waits(maxNumBatchedTokens: number): { first: string[]; steps: number } {
    const scheduler = makeScheduler({
      ...{
        kvGroups: [...STATES],
        blockSize: 16,
        numBlocks: 40,
        maxNumBatchedTokens,
        maxNumSeqs: 4,
        strict: true,
      },
    });
    for (const id of ['a', 'b']) {
      scheduler.add({ id, prompt: prompt(3, 1), maxTokens: 20 });
      step(scheduler);
    }
    scheduler.add({ id: 'long', prompt: prompt(40, 2), maxTokens: 1 });
    scheduler.add({ id: 'short', prompt: prompt(3, 4), maxTokens: 1 });
    const first: string[] = [];
    let steps = 0;
    for (; first.length === 0; steps++)
      for (const [id] of entries(step(scheduler))) if (id === 'long' || id === 'short') first.push(id);
    finish(scheduler);
    scheduler.verify();
    scheduler.dispose();
    return { first, steps };
  }

  it('waits until that much is left, and whoever stands behind waits too', () => {
    // 14 tokens are left beside two requests that decode: the short prompt would fit.
    const { first, steps } = waits(16);
    expect([first, steps > 15]).toEqual([['long'], true]);
  });

  it('begins at once where the budget has a block more than requests run', () => {
    expect(waits(16 + 4).steps).toBe(1);
  });
});

describe('blocks that a window leaves', () => {
  it('are used again last, so prefixes that were cached before go first', () => {
    const hitsBehind = (kvGroups: readonly KvGroupOptions[], numTokens: number): number => {
      const scheduler = makeScheduler({ kvGroups: [...kvGroups], numBlocks: 17, strict: true });
      scheduler.add({ id: 'a', prompt: prompt(17), maxTokens: 1 });
      finish(scheduler);
      scheduler.add({ id: 'long', prompt: prompt(4, 1), maxTokens: numTokens });
      finish(scheduler);
      scheduler.add({ id: 'b', prompt: prompt(17), maxTokens: 1 });
      const [[, numCached] = ['', -1]] = entries(step(scheduler));
      scheduler.dispose();
      return numCached;
    };
    const window: readonly KvGroupOptions[] = [{ type: 'sliding', window: 6 }];
    // The long text holds 3 blocks at once. Yet it takes each of the 16 once before one that it left.
    expect(hitsBehind(window, 12)).toBe(16);
    expect(hitsBehind(window, 60)).toBe(0);
  });

  it('a step that computes a whole prompt keeps one state of it', () => {
    const found = (maxNumBatchedTokens: number): number => {
      const scheduler = makeScheduler({ kvGroups: [...STATES], maxNumBatchedTokens, strict: true });
      scheduler.add({ id: 'a', prompt: prompt(32), maxTokens: 1 });
      finish(scheduler);
      scheduler.add({ id: 'b', prompt: Int32Array.from([...prompt(16), 1, 2, 3]), maxTokens: 1 });
      const [[, numCached] = ['', -1]] = entries(step(scheduler));
      scheduler.dispose();
      return numCached;
    };
    expect(found(64)).toBe(0);
    expect(found(8)).toBe(16);
  });
});
