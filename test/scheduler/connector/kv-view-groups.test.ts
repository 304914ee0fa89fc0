// KV cache groups in the view of a connector, and the places that a resuming request needs.
import { describe, expect, it } from 'vitest';
import type { Plan, Scheduler } from '../../../src/index.js';
import type { KvGroupOptions } from '../../../src/scheduler/options/kv-groups.js';
import { ViewingConnector } from '../../support/connector/viewing-connector.js';
import { codeOf, Driver, prompt } from '../../support/driver.js';

const FULL: KvGroupOptions = { type: 'full', blockSize: 8 };
const SLIDING: KvGroupOptions = { type: 'sliding', blockSize: 4, window: 6 };

function viewed(kvGroups: readonly KvGroupOptions[], options: object = {}) {
  const connector = new ViewingConnector();
  const driver = new Driver({ connector, strict: true, kvGroups: [...kvGroups], ...options });
  return { driver, connector, view: connector.view };
}

/** One step whose tokens mean nothing: the driver's model reads blocks of one group. */
function step(scheduler: Scheduler): void {
  const plan = scheduler.schedule();
  const counts = Int32Array.from(plan.maxOutputTokens.subarray(0, plan.numRequests));
  scheduler.update(plan, {
    tokens: new Int32Array(counts.reduce((sum, count) => sum + count, 0)).fill(7),
    counts,
  });
}

/** The places of a row that hold a block. */
function held(row: Int32Array): number[] {
  return [...row.keys()].filter((place) => row[place] !== 0);
}

describe('what a connector sees of KV cache groups', () => {
  it('which they are, and what their blocks mean', () => {
    const { view } = viewed([FULL, SLIDING]);
    expect(view.numGroups).toBe(2);
    expect(view.groups.map(({ type, blockSize, window }) => [type, blockSize, window])).toEqual([
      ['full', 8, 0],
      ['sliding', 4, 6],
    ]);
    expect([view.blockSize, view.alignment, view.acceptsLoads]).toEqual([8, 8, true]);
    expect(view.layout).not.toBe(viewed([FULL, { ...SLIDING, window: 7 }]).view.layout);
    expect(view.layout).toBe(viewed([FULL, SLIDING]).view.layout);
    const plain = viewed([{ type: 'full' }]).view;
    expect([plain.numGroups, plain.layout, plain.alignment, plain.groups[0].type]).toEqual([
      1,
      '',
      4,
      'full',
    ]);
    expect(viewed([{ type: 'full' }, { type: 'mamba', mode: 'align' }]).view.acceptsLoads).toBe(false);
  });

  it('hashes and full blocks by group: equal where two blocks end at the same token', () => {
    const { driver, view } = viewed([FULL, SLIDING]);
    const request = driver.request(driver.add({ id: 'a', prompt: prompt(22) }));
    expect([0, 1].map((group) => view.numFullBlocks(request, group))).toEqual([2, 5]);
    expect([0, 1].map((i) => view.blockHash(request, i, 0))).toEqual(
      [1, 3].map((i) => view.blockHash(request, i, 1)),
    );
    expect(new Set([0, 1, 2, 3, 4].map((i) => view.blockHash(request, i, 1))).size).toBe(5);
    expect(codeOf(() => view.blockHash(request, 2, 0))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    expect(codeOf(() => view.blockHash(request, 0, 2))).toBe('ERR_BLOCKSTEP_BAD_ARG');
  });

  it('which places a request needs that resumes', () => {
    const { view } = viewed(
      [
        FULL,
        SLIDING,
        { type: 'sliding', blockSize: 4, window: 1 },
        { type: 'chunked', blockSize: 8, chunk: 12 },
        { type: 'mamba', blockSize: 4, mode: 'all' },
      ],
      { maxModelLen: 128 },
    );
    const needed = (group: number, numTokens: number): number[] => {
      const { first, end } = view.neededPlaces(group, numTokens);
      return [first, end];
    };
    expect([0, 1, 8, 9, 24].map((n) => needed(0, n))).toEqual([
      [0, 0],
      [0, 1],
      [0, 1],
      [0, 2],
      [0, 3],
    ]);
    // Behind 8 tokens the next one reads from token 3 on; behind 9 from token 4 on.
    expect([5, 8, 9, 12, 24].map((n) => needed(1, n))).toEqual([
      [0, 2],
      [0, 2],
      [1, 3],
      [1, 3],
      [4, 6],
    ]);
    expect([8, 9].map((n) => needed(2, n))).toEqual([
      [2, 2],
      [2, 3],
    ]);
    expect([8, 16, 24].map((n) => needed(3, n))).toEqual([
      [0, 1],
      [1, 2],
      [3, 3],
    ]);
    expect([0, 1, 4, 5, 8].map((n) => needed(4, n))).toEqual([
      [0, 0],
      [0, 1],
      [0, 1],
      [1, 2],
      [1, 2],
    ]);
    for (const wrong of [-1, 0.5, Number.NaN])
      expect(codeOf(() => view.neededPlaces(0, wrong))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    expect(codeOf(() => view.neededPlaces(5, 8))).toBe('ERR_BLOCKSTEP_BAD_ARG');
  });

  it('never less than what the scheduler keeps, and no more', () => {
    const kvGroups: KvGroupOptions[] = [
      FULL,
      SLIDING,
      { type: 'chunked', blockSize: 8, chunk: 12 },
      { type: 'mamba', blockSize: 4, mode: 'all' },
    ];
    const { driver, view, connector } = viewed(kvGroups, { numBlocks: 65 });
    let checked = 0;
    connector.onMetadata = (plan: Plan) => {
      for (let i = 0; i < plan.numRequests; i++) {
        const rows = view.blocks(plan.requests[i]);
        for (const [group, row] of rows.entries()) {
          expect(held(row)[0] ?? row.length).toBe(view.neededPlaces(group, plan.numComputedTokens[i]).first);
          checked++;
        }
      }
    };
    driver.add({ id: 'a', prompt: prompt(33), maxTokens: 30 });
    while (driver.scheduler.hasWork()) step(driver.scheduler);
    expect(checked).toBeGreaterThan(100);
  });

  it('rows and new blocks by group, with 0 where nothing is held', () => {
    const { driver, view, connector } = viewed([FULL, SLIDING]);
    const taken: number[][] = [];
    connector.onMetadata = (plan: Plan) => {
      taken.push(view.newBlocks(plan, 0).map(({ length }) => length));
    };
    const a = driver.add({ id: 'a', prompt: prompt(16), maxTokens: 6 });
    step(driver.scheduler);
    const [full, sliding] = view.blocks(driver.request(a));
    expect([full.length, sliding.length, held(sliding)]).toEqual([2, 4, [0, 1, 2, 3]]);
    step(driver.scheduler);
    // Behind 16 tokens the next one reads from token 11 on.
    expect(held(view.blocks(driver.request(a))[1])).toEqual([2, 3, 4]);
    expect(taken).toEqual([
      [2, 4],
      [1, 1],
    ]);
    const out = new Int32Array(8);
    expect(view.readBlocks(driver.request(a), 2, out, 1)).toBe(3);
    expect([...out.subarray(0, 3)]).toEqual([...view.blocks(driver.request(a))[1].subarray(2)]);
  });

  it('that nothing can be loaded where steps must end at the end of a block: a match is refused and counted', () => {
    const { driver, connector } = viewed([{ type: 'full' }, { type: 'mamba', mode: 'align' }]);
    connector.match = { numTokens: 4, async: true };
    driver.add({ id: 'a', prompt: prompt(9), maxTokens: 1 });
    step(driver.scheduler);
    expect(driver.scheduler.stats()).toMatchObject({ refusedMatches: 1, externalHits: 0, numLoading: 0 });
    expect(connector.calls.filter((call) => call.startsWith('alloc'))).toEqual(['alloc a 0 of 2']);
    expect(driver.scheduler.hasWork()).toBe(true);
  });

  describe('that all tokens of a request are too many where the last one needs more than the next', () => {
    // 16 tokens: the last one is computed again, behind 15.
    const refused = (group: KvGroupOptions, numTokens = 16, more: object = {}): number => {
      const { driver, connector } = viewed([{ type: 'full', blockSize: 4 }, group], more);
      connector.match = { numTokens, async: true };
      const a = driver.add({ id: 'a', prompt: prompt(16), maxTokens: 1 });
      step(driver.scheduler);
      const { refusedMatches, numLoading } = driver.scheduler.stats();
      const numExternalTokens = driver.scheduler.getByHandle(a)?.numExternalTokens ?? 0;
      expect([numExternalTokens, numLoading]).toEqual(refusedMatches === 1 ? [0, 0] : [numTokens, 1]);
      return refusedMatches;
    };

    it.each<[string, KvGroupOptions, number]>([
      ['a window that begins in another block', { type: 'sliding', blockSize: 4, window: 5 }, 1],
      ['a window that begins in the same block', { type: 'sliding', blockSize: 4, window: 4 }, 0],
      ['a chunk that ends there', { type: 'chunked', blockSize: 4, chunk: 8 }, 1],
      ['a chunk that goes on', { type: 'chunked', blockSize: 4, chunk: 12 }, 0],
      ['a state', { type: 'mamba', mode: 'all', blockSize: 4 }, 1],
      ['all tokens', { type: 'full', blockSize: 4 }, 0],
    ])('%s', (_, group, expected) => {
      expect(refused(group)).toBe(expected);
      expect(refused(group, 12)).toBe(0);
      expect(refused(group, 16, { deviations: ['refuseWholeMatches'] })).toBe(0);
    });

    it('nor at once, where the last token is left out', () => {
      const { driver, connector } = viewed([
        { type: 'full', blockSize: 4 },
        { ...SLIDING, window: 5 },
      ]);
      connector.match = { numTokens: 16, async: false };
      driver.add({ id: 'a', prompt: prompt(16), maxTokens: 1 });
      const plan = driver.scheduler.schedule();
      expect([plan.numComputedTokens[0], plan.numScheduledTokens[0]]).toEqual([0, 16]);
      expect(driver.scheduler.stats().refusedMatches).toBe(1);
    });
  });
});
