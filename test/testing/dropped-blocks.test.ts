// Blocks that a running request releases are not given to others while they are read.
import { describe, expect, it } from 'vitest';
import type { Plan, Scheduler } from '../../src/index.js';
import type { KvGroupOptions } from '../../src/scheduler/options/kv-groups.js';
import { connectorCases } from '../../src/testing/index.js';
import { ViewingConnector } from '../support/connector/viewing-connector.js';
import { makeScheduler, prompt } from '../support/driver.js';
import { share } from '../support/share.js';
import { makeRowCopier } from './row-copier.js';

/** Blocks that a running request lets go are not given to others while somebody reads them. */

const WINDOW: KvGroupOptions[] = [{ type: 'sliding', window: 6 }];

function step(scheduler: Scheduler): Plan {
  const plan = scheduler.schedule();
  const counts = Int32Array.from(plan.maxOutputTokens.subarray(0, plan.numRequests));
  scheduler.update(plan, {
    tokens: new Int32Array(counts.reduce((sum, each) => sum + each, 0)).fill(7),
    counts,
  });
  return plan;
}

function running(options: object = {}) {
  const connector = new ViewingConnector();
  const scheduler = makeScheduler({ connector, kvGroups: WINDOW, strict: true, ...options });
  const handle = scheduler.add({ id: 'a', prompt: prompt(16), maxTokens: 20 });
  return { connector, scheduler, handle, view: connector.view };
}

describe('a plan says which blocks its requests let go', () => {
  it('with a connector or with reportBlocks, and without them nothing', () => {
    for (const [options, isTold] of [
      [{}, true],
      [{ connector: null, reportBlocks: true }, true],
      [{ connector: null }, false],
    ] as const) {
      const { scheduler } = running(options);
      expect([...step(scheduler).droppedBlocks]).toEqual([]);
      const plan = step(scheduler);
      // Behind 16 tokens the next one reads from token 11 on: blocks 0 and 1 go, the one on the right first.
      expect([...plan.droppedBlocks]).toEqual(isTold ? [2, 1] : []);
      expect([...step(scheduler).droppedBlocks]).toEqual(isTold ? [3] : []);
      expect([...step(scheduler).droppedBlocks]).toEqual([]);
      scheduler.dispose();
    }
  });
});

describe('what a use of a running request keeps', () => {
  it('blocks that the window leaves, until the use is over', () => {
    const { scheduler, handle, view } = running();
    step(scheduler);
    const free = scheduler.stats().freeBlocks;
    expect(view.hold(handle, 'store', 'job')).toBe(true);
    const left = [step(scheduler), step(scheduler)].flatMap(({ droppedBlocks }) => [...droppedBlocks]);
    expect(left).toEqual([2, 1, 3]);
    // The transfer took one block, and the blocks that it released are not free.
    expect(scheduler.stats().freeBlocks).toBe(free - 1);
    expect(view.complete(handle, 'store', 'job')).toBe(true);
    expect(scheduler.stats().freeBlocks).toBe(free + 2);
    scheduler.verify();
    scheduler.dispose();
  });

  it('also when the request ends meanwhile', () => {
    const { scheduler, handle, view } = running();
    step(scheduler);
    view.hold(handle, 'store', 'job');
    scheduler.abort('a');
    step(scheduler);
    expect(scheduler.stats().freeBlocks).toBe(32 - 4);
    view.complete(handle, 'store', 'job');
    expect(scheduler.stats().freeBlocks).toBe(32);
    scheduler.verify();
    scheduler.dispose();
  });
});

describe('what a use of a running request with states keeps', () => {
  it('every state that is let go, whatever stands between them', () => {
    const kvGroups: KvGroupOptions[] = [{ type: 'full' }, { type: 'mamba', mode: 'align' }];
    const { scheduler, handle, view } = running({ kvGroups, longPrefillTokenThreshold: 8 });
    const request = step(scheduler).requests[0];
    expect(view.hold(handle, 'store', 'job')).toBe(true);
    const left = Array.from({ length: 4 }, () => [...step(scheduler).droppedBlocks]).flat();
    expect(left.length).toBeGreaterThan(1);
    expect([...(request?.keptBlocks ?? [])]).toEqual(left);
    scheduler.dispose();
  });
});

// Without `BlockReuse.taken` for `own`, or without the wait of the step that takes such a block, these fail.
describe("a connector that copies rows away reads no block that is somebody else's", () => {
  for (const { name, run } of connectorCases({
    make: makeRowCopier,
    loads: false,
    // In the last one a plan without tokens ends while the step that let a block go is in flight.
    seeds: share([113], [1, 2, 113], [1, 2, 3, 4, 5, 6, 113]),
  }))
    if (name.startsWith('groups')) it(name, run, 60_000);
});
