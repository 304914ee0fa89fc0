// A block that a step in flight has released is lost, or was never written.
import { describe, expect, it } from 'vitest';
import type { KvGroupOptions, Plan, Request, Scheduler, SchedulerOptions } from '../../../src/index.js';
import { letGoBy } from '../../../src/scheduler/plan/let-go.js';
import { ViewingConnector } from '../../support/connector/viewing-connector.js';
import { makeScheduler, prompt } from '../../support/driver.js';

/**
 * A step in flight has released a block that an older step wrote or read. A failure of that block
 * still concerns the request.
 */

const WINDOW: readonly KvGroupOptions[] = [{ type: 'sliding', window: 6 }];
const SHAPES: Readonly<Record<string, readonly KvGroupOptions[]>> = {
  'a window': WINDOW,
  'a window of one token': [{ type: 'sliding', window: 1 }],
  'a window beside full attention': [{ type: 'full' }, ...WINDOW],
};
const TOKEN = { tokens: Int32Array.of(7), counts: Int32Array.of(1) };

/** A request of 20 tokens with two steps in flight: the second one lets go what the first one wrote. */
function twoSteps(kvGroups: readonly KvGroupOptions[], numLoaded = 0, more: Partial<SchedulerOptions> = {}) {
  const connector = new ViewingConnector();
  const scheduler = makeScheduler({
    ...{ connector, kvGroups: [...kvGroups], pipelineDepth: 2, strict: true, loadFailurePolicy: 'recompute' },
    ...more,
  });
  let rows: Int32Array[] = [];
  connector.onAlloc = (_, blocks) => {
    rows = blocks.map((row) => row.slice());
  };
  if (numLoaded > 0) connector.match = { numTokens: numLoaded, async: false };
  const handle = scheduler.add({ id: 'a', prompt: prompt(20), maxTokens: 9 });
  const first = scheduler.schedule();
  connector.match = null;
  const second = scheduler.schedule();
  expect(second.droppedBlocks.length).toBeGreaterThan(0);
  const request = first.requests[0] as Request;
  return { scheduler, handle, request, first, second, row: rows.at(-1) ?? new Int32Array(0) };
}

/** Steps until everything is over. */
function toEnd(scheduler: Scheduler, inFlight: Plan): void {
  for (let plan = inFlight; ; plan = scheduler.schedule()) {
    const counts = Int32Array.from(plan.maxOutputTokens.subarray(0, plan.numRequests));
    const tokens = new Int32Array(counts.reduce((sum, each) => sum + each, 0)).fill(7);
    scheduler.update(plan, { tokens, counts });
    if (!scheduler.hasWork()) break;
  }
  scheduler.verify();
}

describe.each(Object.entries(SHAPES))('with %s', (_, kvGroups) => {
  it('what a failed step should have written is not found', () => {
    const { scheduler, first, second } = twoSteps(kvGroups);
    scheduler.failStep(first);
    scheduler.update(second, TOKEN);
    for (const length of [5, 9, 13, 17]) {
      scheduler.add({ id: 'b', prompt: prompt(length), maxTokens: 1 });
      const plan = scheduler.schedule();
      expect([length, plan.requests[0]?.numCachedTokens]).toEqual([length, 0]);
      scheduler.failStep(plan);
    }
    scheduler.dispose();
  });

  it('a request whose load failed there is computed again', () => {
    const { scheduler, handle, request, first, second, row } = twoSteps(kvGroups, 14);
    const block = [...row].find((id) => id !== 0 && second.droppedBlocks.includes(id)) ?? 0;
    expect(block).toBeGreaterThan(0);
    scheduler.update(first, TOKEN, { invalidBlocks: [{ block, handle }] });
    expect(request.numOutputTokens).toBe(0);
    expect(scheduler.stats()).toMatchObject({ failedLoads: 1, numPreemptions: 1 });
    toEnd(scheduler, second);
    expect(request.numOutputTokens).toBe(9);
    scheduler.dispose();
  });

  it('a request whose block is lost there is computed again', () => {
    const { scheduler, request, first, second } = twoSteps(kvGroups);
    scheduler.update(first, TOKEN, { lostBlocks: [second.droppedBlocks[0] as number] });
    expect(request.numOutputTokens).toBe(0);
    expect(scheduler.stats().numPreemptions).toBe(1);
    toEnd(scheduler, second);
    expect(request.numOutputTokens).toBe(9);
    scheduler.dispose();
  });

  /**
   * The third step takes a block that the second step has released, for the request `b`, and
   * reports about it.
   */
  function takenAnew(numLoaded: number, loadFailurePolicy: 'recompute' | 'fail') {
    // All that is left is one more request's.
    const numBlocks = kvGroups.length > 1 && numLoaded > 0 ? 18 : 17;
    const room = { pipelineDepth: 3, numBlocks, reserveFullIsl: false, loadFailurePolicy } as const;
    const steps = twoSteps(kvGroups, numLoaded, room);
    const { scheduler, handle, second, row } = steps;
    const of = numLoaded > 0 ? [...row] : [...second.droppedBlocks];
    const block = of.find((id) => id !== 0 && second.droppedBlocks.includes(id)) ?? 0;
    const size = Math.floor(scheduler.stats().freeBlocks / kvGroups.length) * 4;
    scheduler.add({ id: 'b', prompt: prompt(size, 500), maxTokens: 1 });
    const third = scheduler.schedule();
    const b = third.requests.find(({ id }) => id === 'b') as Request;
    const rowsOfB = kvGroups.flatMap((_, g) => [...scheduler.core.blocks(b.slot, g)]);
    expect(rowsOfB).toContain(block);
    const reports = {
      ...{ invalidBlocks: { invalidBlocks: [{ block, handle }] }, lostBlocks: { lostBlocks: [block] } },
      failedReceiving: { failedReceiving: [{ handle }] },
    };
    return { ...steps, third, b, reports };
  }

  it.each(['invalidBlocks', 'failedReceiving', 'lostBlocks'] as const)(
    'so is one whose block was taken anew since (%s), and who took it is not',
    (how) => {
      const { scheduler, request, first, second, third, b, reports } = takenAnew(
        how === 'lostBlocks' ? 0 : 14,
        'recompute',
      );
      scheduler.update(first, TOKEN, reports[how]);
      expect(request.numOutputTokens).toBe(0);
      expect([request.status, b.status]).toEqual(['PREEMPTED', 'RUNNING']);
      scheduler.update(second, TOKEN);
      toEnd(scheduler, third);
      expect([request.numOutputTokens, b.numOutputTokens]).toEqual([9, 1]);
      scheduler.dispose();
    },
  );

  it.each(['invalidBlocks', 'failedReceiving'] as const)(
    'under the policy fail it ends, although the block of its load was taken anew since (%s)',
    (how) => {
      const { scheduler, request, first, second, third, b, reports } = takenAnew(14, 'fail');
      scheduler.update(first, TOKEN, reports[how]);
      expect([request.finishReason, request.numOutputTokens, b.status]).toEqual(['error', 0, 'RUNNING']);
      expect(scheduler.stats().failedLoads).toBe(1);
      scheduler.update(second, TOKEN);
      toEnd(scheduler, third);
      expect(b.numOutputTokens).toBe(1);
      scheduler.dispose();
    },
  );
});

// Pinned by: `holdsSince` in `applyInvalid` (load-failure.ts).
describe('F19 a block of a failed load that was let go, and taken anew by a request that has left since', () => {
  it.each(['recompute', 'fail'] as const)('gives no text under the policy %s', (loadFailurePolicy) => {
    const connector = new ViewingConnector();
    const scheduler = makeScheduler({
      ...{ connector, kvGroups: [...WINDOW], pipelineDepth: 3, strict: true, loadFailurePolicy },
      ...{ numBlocks: 13, maxNumBatchedTokens: 28, longPrefillTokenThreshold: 20, reserveFullIsl: false },
    });
    const b = scheduler.add({ id: 'b', prompt: prompt(110, 500), maxTokens: 1 });
    const zeroth = scheduler.schedule();
    connector.match = { numTokens: 14, async: false };
    const handle = scheduler.add({ id: 'a', prompt: prompt(20), maxTokens: 9 });
    const first = scheduler.schedule();
    const a = first.requests[1] as Request;
    const place = [...scheduler.core.blocks(a.slot)][2] ?? 0;
    connector.match = null;
    scheduler.update(zeroth, { tokens: new Int32Array(0), counts: Int32Array.of(0) });
    const second = scheduler.schedule();
    const third = scheduler.schedule();
    // b came in before a: it shares nothing that a was to load.
    expect([...second.droppedBlocks]).toContain(place);
    expect([...scheduler.core.blocks(first.requests[0]?.slot ?? 0)]).toContain(place);
    scheduler.abort(b);
    const noneOfB = { tokens: Int32Array.of(7), counts: Int32Array.of(0, 1) };
    scheduler.update(first, noneOfB, { invalidBlocks: [{ block: place, handle }] });
    expect([a.numOutputTokens, a.finishReason]).toEqual([0, loadFailurePolicy === 'fail' ? 'error' : null]);
    scheduler.update(second, noneOfB);
    scheduler.update(third, noneOfB);
    if (loadFailurePolicy === 'recompute') toEnd(scheduler, scheduler.schedule());
    expect(a.numOutputTokens).toBe(loadFailurePolicy === 'fail' ? 0 : 9);
    scheduler.dispose();
  });
});

it.each([
  ['a window', WINDOW],
  ['a window beside full attention', [{ type: 'full' }, ...WINDOW]],
] as [string, readonly KvGroupOptions[]][])(
  'a block whose end a failed entry was to write is bad: %s',
  (_, kvGroups) => {
    const scheduler = makeScheduler({ kvGroups: [...kvGroups], longPrefillTokenThreshold: 14, strict: true });
    scheduler.add({ id: 'a', prompt: prompt(24), maxTokens: 9 });
    scheduler.update(scheduler.schedule(), { tokens: new Int32Array(0), counts: Int32Array.of(0) });
    // a computes tokens 14 to 23; b hits 12 to 15, the only block of them that it needs.
    const handle = scheduler.add({ id: 'b', prompt: prompt(17), maxTokens: 9 });
    const plan = scheduler.schedule();
    expect(plan.requests[1]?.numCachedTokens).toBe(16);
    const row = { tokens: Int32Array.of(7), counts: Int32Array.of(0, 1), errors: Uint8Array.of(1, 0) };
    scheduler.update(plan, row);
    expect([plan.requests[1]?.status, plan.requests[1]?.numOutputTokens]).toEqual(['PREEMPTED', 0]);
    scheduler.abort(handle);
    scheduler.add({ id: 'c', prompt: prompt(17), maxTokens: 9 });
    expect(scheduler.schedule().requests[0]?.numCachedTokens).toBe(12);
    scheduler.dispose();
  },
);

it.each(Object.entries(SHAPES).filter(([name]) => name !== 'a window of one token'))(
  'what was computed from a lost block that had been let go is not found when its request has left: %s',
  (_, kvGroups) => {
    const { scheduler, handle, first, second } = twoSteps(kvGroups);
    scheduler.abort(handle);
    scheduler.update(first, TOKEN, { lostBlocks: [second.droppedBlocks[0] as number] });
    scheduler.update(second, TOKEN);
    scheduler.add({ id: 'b', prompt: prompt(20), maxTokens: 9 });
    const [b] = scheduler.schedule().requests;
    expect([b?.id, b?.numCachedTokens]).toEqual(['b', 0]);
    scheduler.dispose();
  },
);

describe('a request that hit a block of a window', () => {
  /** `b` resumes behind 12 tokens with places 1 and 2 of `a`; place 0 is `a`'s alone, and is lost. */
  function afterLoss(loadFailurePolicy: 'recompute' | 'fail') {
    const scheduler = makeScheduler({ kvGroups: [...WINDOW], strict: true, loadFailurePolicy });
    scheduler.add({ id: 'a', prompt: prompt(16), maxTokens: 9 });
    scheduler.add({ id: 'b', prompt: prompt(15), maxTokens: 9 });
    const plan = scheduler.schedule();
    const [a, b] = plan.requests as Request[];
    const [rowOfA, rowOfB] = [a, b].map((request) => [...scheduler.core.blocks(request.slot)]);
    expect(b.numCachedTokens).toBe(12);
    expect(rowOfB).not.toContain(rowOfA[0]);
    const tokens = { tokens: Int32Array.of(7, 7), counts: Int32Array.of(1, 1) };
    scheduler.update(plan, tokens, { lostBlocks: [rowOfA[0]] });
    return { scheduler, requests: [a, b] };
  }

  it('is computed again if what that block was computed from is lost, although it does not hold it', () => {
    const { scheduler } = afterLoss('recompute');
    expect(scheduler.stats().numPreemptions).toBe(2);
    scheduler.dispose();
  });

  it('ends under the policy fail, and its client is given nothing that was computed from it', () => {
    const { scheduler, requests } = afterLoss('fail');
    expect(requests.map(({ finishReason, numOutputTokens }) => [finishReason, numOutputTokens])).toEqual([
      ['error', 0],
      ['error', 0],
    ]);
    scheduler.dispose();
  });

  it('is computed again if the entry that was to write the block failed, and let it go since', () => {
    const scheduler = makeScheduler({
      ...{ kvGroups: [...WINDOW], pipelineDepth: 2, longPrefillTokenThreshold: 12, strict: true },
    });
    scheduler.add({ id: 'a', prompt: prompt(24), maxTokens: 9 });
    const zeroth = scheduler.schedule();
    scheduler.add({ id: 'b', prompt: prompt(17), maxTokens: 9 });
    // a computes tokens 12 to 23, of which b hits the first four.
    const first = scheduler.schedule();
    scheduler.update(zeroth, { tokens: new Int32Array(0), counts: Int32Array.of(0) });
    const [, b] = first.requests;
    const second = scheduler.schedule();
    // Their block is in b's row alone: a's window has left it.
    const rowOfB = [...scheduler.core.blocks(b?.slot ?? 0)];
    expect([b?.numCachedTokens, [...second.droppedBlocks].includes(rowOfB[3] ?? 0)]).toEqual([16, true]);
    scheduler.update(first, {
      ...{ tokens: Int32Array.of(7), counts: Int32Array.of(0, 1), errors: Uint8Array.of(1, 0) },
    });
    expect(scheduler.stats().numPreemptions).toBe(1);
    toEnd(scheduler, second);
    expect(b?.numOutputTokens).toBe(9);
    scheduler.dispose();
  });
});

// Pinned by: places of what was let go, and `kvIn` (lost-places.ts); `computedBefore` (bad-blocks.ts).
describe.each(['recompute', 'fail'] as const)(
  'F21 policy %s: nobody is asked to pay for',
  (loadFailurePolicy) => {
    const options = { pipelineDepth: 3, strict: true, loadFailurePolicy, reserveFullIsl: false } as const;
    const text = (length: number, more: number) => Int32Array.of(...prompt(length), more, more);

    it('a block behind the one that is its own: both were let go, and one is lost', () => {
      const scheduler = makeScheduler({ ...options, kvGroups: [{ type: 'chunked', chunk: 8 }] });
      scheduler.add({ id: 'a', prompt: prompt(8), maxTokens: 9 });
      scheduler.add({ id: 'b', prompt: text(4, 500), maxTokens: 1 });
      const first = scheduler.schedule();
      const [a, b] = first.requests as Request[];
      const [, lost] = scheduler.core.blocks(a.slot);
      expect(b.numCachedTokens).toBe(4);
      const second = scheduler.schedule();
      expect([...second.droppedBlocks]).toContain(lost);
      const both = { tokens: Int32Array.of(7, 7), counts: Int32Array.of(1, 1) };
      scheduler.update(first, both, { lostBlocks: [lost] });
      expect([a.numOutputTokens, a.finishReason]).toEqual([0, loadFailurePolicy === 'fail' ? 'error' : null]);
      expect([b.numOutputTokens, b.finishReason]).toEqual([1, 'length']);
      scheduler.dispose();
    });

    it('what was taken anew, and let go again', () => {
      const connector = new ViewingConnector();
      const room = { numBlocks: 11, maxNumBatchedTokens: 26, longPrefillTokenThreshold: 20 };
      const scheduler = makeScheduler({ ...options, ...room, connector, kvGroups: [...WINDOW] });
      connector.onMetadata = () => {
        connector.match = null;
      };
      connector.onAlloc = () => {
        connector.match = null;
      };
      connector.match = { numTokens: 14, async: false };
      const handle = scheduler.add({ id: 'a', prompt: prompt(20), maxTokens: 9 });
      scheduler.add({ id: 'b', prompt: prompt(110, 500), maxTokens: 1 });
      const first = scheduler.schedule();
      const [a, b] = first.requests as Request[];
      const block = scheduler.core.blocks(a.slot)[2] ?? 0;
      const plans = [scheduler.schedule(), scheduler.schedule()];
      expect(plans.map(({ droppedBlocks }) => [...droppedBlocks].includes(block))).toEqual([true, true]);
      const tokens = { tokens: Int32Array.of(7), counts: Int32Array.of(1, 0) };
      scheduler.update(first, tokens, { invalidBlocks: [{ block, handle }] });
      expect([a.numOutputTokens, a.finishReason]).toEqual([0, loadFailurePolicy === 'fail' ? 'error' : null]);
      expect([b.status, scheduler.stats().failedLoads]).toEqual(['RUNNING', 1]);
      scheduler.dispose();
    });

    it('what somebody found who found something bad too', () => {
      const connector = new ViewingConnector();
      const kvGroups: KvGroupOptions[] = [{ type: 'full' }, { type: 'sliding', window: 5 }];
      const scheduler = makeScheduler({ ...options, connector, kvGroups });
      const add = (id: string, length: number, more: number, numTokens: number): Plan => {
        connector.match = numTokens > 0 ? { numTokens, async: false } : null;
        scheduler.add({ id, prompt: text(length, more), maxTokens: 9 });
        return scheduler.schedule();
      };
      // a loads the first block of attention; b loads its own one, since a window lacks it. c finds those of a, and the window's from b.
      const first = add('a', 20, 500, 16);
      const second = add('b', 8, 600, 4);
      const third = add('c', 8, 700, 0);
      const [a, b, c] = third.requests as Request[];
      const [rowOfA, rowOfB, rowOfC] = [a, b, c].map(({ slot }) => [...scheduler.core.blocks(slot)]);
      expect([b.numCachedTokens, c.numCachedTokens]).toEqual([4, 8]);
      expect([rowOfC[0] === rowOfA[0], rowOfB[0] === rowOfA[0]]).toEqual([true, false]);
      expect(scheduler.core.blocks(c.slot, 1)[1]).toBe(scheduler.core.blocks(b.slot, 1)[1]);
      scheduler.update(first, TOKEN, { invalidBlocks: [{ block: rowOfA[0] as number, handle: a.handle }] });
      expect([b.status, c.status]).toEqual(['RUNNING', 'PREEMPTED']);
      scheduler.update(second, { tokens: Int32Array.of(7, 7), counts: Int32Array.of(1, 1) });
      expect(b.numOutputTokens).toBe(1);
      scheduler.dispose();
    });
  },
);

it('a request does not end for a loss of what the one before it in its slot has let go', () => {
  const scheduler = makeScheduler({
    kvGroups: [...WINDOW],
    pipelineDepth: 3,
    maxNumSeqs: 1,
    loadFailurePolicy: 'fail',
  });
  const handle = scheduler.add({ id: 'a', prompt: prompt(20), maxTokens: 9 });
  const first = scheduler.schedule();
  const second = scheduler.schedule();
  expect(second.droppedBlocks.length).toBeGreaterThan(0);
  scheduler.abort(handle);
  scheduler.add({ id: 'b', prompt: prompt(2), maxTokens: 9 });
  const third = scheduler.schedule();
  const b = third.requests[0] as Request;
  expect(third.slots[0]).toBe(letGoBy(second)[0]?.slot);
  scheduler.update(first, TOKEN, { lostBlocks: [second.droppedBlocks[0] as number] });
  scheduler.update(second, TOKEN);
  toEnd(scheduler, third);
  expect([b.numOutputTokens, b.failure]).toEqual([9, null]);
  scheduler.dispose();
});

it('blocks that a step zeroes are told as taken, also those of a request whose connector failed', () => {
  const connector = new ViewingConnector({}, { protection: 'fence' });
  const scheduler = makeScheduler({
    connector,
    kvGroups: [{ type: 'mamba', mode: 'align' }, { type: 'full' }],
  });
  scheduler.add({ id: 'a', prompt: prompt(3), maxTokens: 9 });
  scheduler.update(scheduler.schedule(), TOKEN);
  connector.throwing.add('alloc');
  scheduler.add({ id: 'b', prompt: prompt(5, 500), maxTokens: 1 });
  const plan = scheduler.schedule();
  expect(plan.requests.slice(0, plan.numRequests).map(({ id }) => id)).toEqual(['a']);
  const zeroed = [...(plan.blocksToZero ?? [])];
  expect(zeroed.length).toBeGreaterThan(0);
  expect([...plan.takenBlocks]).toEqual(expect.arrayContaining(zeroed));
  scheduler.dispose();
});

it('what an empty plan let go is not found, where the step that should have written it fails', () => {
  const kvGroups: KvGroupOptions[] = [{ type: 'full' }, { type: 'sliding', window: 1 }];
  const room = { numBlocks: 8, maxNumBatchedTokens: 8, reserveFullIsl: false } as const;
  const scheduler = makeScheduler({ kvGroups, ...room, pipelineDepth: 2, strict: true });
  const handles = [4, 12].map((length, seed) =>
    scheduler.add({ id: `r${seed}`, prompt: prompt(length, seed), maxTokens: 1 }),
  );
  const first = scheduler.schedule();
  // Nobody can be preempted: transfers use the blocks of both.
  for (const handle of handles) expect(scheduler.hold(handle, 'store', 'job')).toBe(true);
  const empty = scheduler.schedule();
  expect([first.numRequests, empty.numRequests, empty.droppedBlocks.length]).toEqual([2, 0, 1]);
  expect(scheduler.core.published()).toHaveLength(4);
  scheduler.failStep(first);
  expect([...scheduler.core.published()]).toEqual([]);
  for (const handle of handles) scheduler.complete(handle, 'store', 'job');
  scheduler.dispose();
});
