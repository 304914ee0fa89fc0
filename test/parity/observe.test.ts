// The words in which a step is compared with a trace.
import { crc32 } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import {
  observeBitmask,
  observeDeferred,
  observeFinal,
  observeOutputs,
  observePlan,
  observePool,
  observeState,
  recordedState,
  round6,
} from './observe.js';
import { TraceGroups } from './rows.js';
import type { SubjectOutputs, SubjectPlan, SubjectRequest } from './subject.js';

function request(id: string, fields: Partial<SubjectRequest> = {}): SubjectRequest {
  const counts = {
    handle: 1,
    slot: 0,
    numTokens: 0,
    numComputedTokens: 0,
    numOutputPlaceholders: 0,
    numDraftTokens: 0,
  };
  return { id, status: 'RUNNING', stopReason: null, finishedParams: null, ...counts, ...fields };
}

/** A core whose slot s holds blocks 10 s, 10 s + 1, ... */
function core(blocksOf: Record<number, number[]> = {}) {
  return {
    freeBlocks: 3,
    publishedBlocks: 2,
    usage: 1 - 3 / 8,
    freeQueue: () => Int32Array.from([5, 1, 7]),
    published: () => Int32Array.from([1, 4]),
    native: {
      readBlocks(slot: number, from: number, out: Int32Array): number {
        const blocks = blocksOf[slot].slice(from, from + out.length);
        out.set(blocks);
        return blocks.length;
      },
    },
  };
}

const plan: SubjectPlan = {
  numRequests: 4,
  totalTokens: 31,
  // The array is longer than the plan, as it is in a reused one.
  requests: [
    request('r1', { numTokens: 40 }),
    request('r2', { numTokens: 51 }),
    request('r3', { numTokens: 20 }),
    request('r4', { numTokens: 30 }),
    request('stale'),
  ],
  kinds: Uint8Array.of(0, 0, 1, 2, 0),
  slots: Int32Array.of(0, 1, 2, 3, 0),
  numScheduledTokens: Int32Array.of(3, 1, 17, 10, 99),
  numComputedTokens: Int32Array.of(39, 50, 3, 20, 99),
  numBlocks: Int32Array.of(3, 4, 2, 2, 9),
  numNewBlocks: Int32Array.of(0, 2, 2, 2, 9),
  numDraftTokens: Int32Array.of(2, 0, 0, 0, 3),
  draftTokens: Int32Array.of(900, 901, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1),
  maxDrafts: 3,
  needsAllTokens: Uint8Array.of(0, 1, 1, 1, 1),
  pendingStructuredOutputTokens: true,
  numInvalidDraftTokens: Uint8Array.of(1, 0, 0, 0, 2),
  bitmaskEntries: () => [3, 0],
  preempted: ['r9', 'r8'],
  finished: ['r7', 'r10'],
  numCommonPrefixBlocks: 2,
  numOutputTokens: (i) => [5, 6, 0, 2][i],
};

describe('observePlan', () => {
  it('says what a trace says', () => {
    const blocks = { 0: [1, 2, 3], 1: [4, 5, 6, 7], 2: [8, 9], 3: [10, 11] };
    expect(observePlan(plan, core(blocks))).toEqual({
      new: [['r3', [8, 9], 3]],
      resumed: [['r4', [10, 11], 20, 2]],
      running: [
        ['r1', null, 39, 5],
        ['r2', [6, 7], 50, 6],
      ],
      tokens: [
        ['r1', 3],
        ['r2', 1],
        ['r3', 17],
        ['r4', 10],
      ],
      total: 31,
      preempted: ['r9', 'r8'],
      finished: ['r10', 'r7'],
      all_tokens: { r2: 51, r4: 30 },
      common: 2,
      spec: [['r1', [900, 901]]],
      pend: 1,
    });
  });

  it('shows a block list that is longer or shorter than the plan says', () => {
    const blocks = { 0: [1, 2, 3, 99], 1: [4, 5, 6], 2: [8, 9, 98], 3: [10] };
    const seen = observePlan(plan, core(blocks));
    expect(seen.running.map((row) => row[1])).toEqual([[99], [6]]);
    expect([seen.new[0][1], seen.resumed[0][1]]).toEqual([[8, 9, 98], [10]]);
  });
});

describe('observePlan, of a trace with KV cache groups', () => {
  const numbers = ([numBlocks, numNewBlocks]: number[][], numCommonPrefixBlocks: number) => ({
    numBlocks: Int32Array.from(numBlocks),
    numNewBlocks: Int32Array.from(numNewBlocks),
    numCommonPrefixBlocks,
  });
  const groups = [
    numbers(
      [plan.numBlocks, plan.numNewBlocks].map((counts) => [...counts]),
      2,
    ),
    numbers(
      [
        [2, 1, 1, 0, 9],
        [1, 0, 1, 0, 9],
      ],
      0,
    ),
  ];
  const rows: Record<number, number[][]> = {
    0: [
      [1, 2, 3],
      [0, 12],
    ],
    1: [[4, 5, 6, 7], [0]],
    2: [[8, 9], [13]],
    3: [[10, 11], []],
  };
  const native = {
    readBlocks(slot: number, from: number, out: Int32Array, group = 0): number {
      const blocks = rows[slot][group].slice(from, from + out.length);
      out.set(blocks);
      return blocks.length;
    },
  };

  it('says it by group', () => {
    const seen = observePlan({ ...plan, groups }, { native }, 2);
    expect(seen.new).toEqual([['r3', [[8, 9], [13]], 3]]);
    expect(seen.resumed).toEqual([['r4', [[10, 11], []], 20, 2]]);
    expect(seen.running).toEqual([
      ['r1', [[], [12]], 39, 5],
      ['r2', [[6, 7], []], 50, 6],
    ]);
    expect(seen.common).toEqual([2, 0]);
    expect(Object.hasOwn(seen, 'zero')).toBe(false);
  });

  it('takes the numbers of the plan itself for those of the only group', () => {
    const [first, second] = observePlan(plan, { native }, 1).running;
    expect([first, second]).toEqual([
      ['r1', null, 39, 5],
      ['r2', [[6, 7]], 50, 6],
    ]);
    expect(observePlan(plan, { native }, 1).common).toEqual([2]);
  });

  it('says which blocks are to be zeroed, or that none are', () => {
    const zero = (blocksToZero: Int32Array | null) =>
      observePlan({ ...plan, groups, blocksToZero }, { native }, 2).zero;
    expect(zero(Int32Array.of(6, 7))).toEqual([6, 7]);
    expect(zero(null)).toBeNull();
  });
});

describe('observeBitmask', () => {
  it('says what a trace says', () => {
    expect(observeBitmask(plan)).toEqual(['r4', 'r1']);
    expect(observeBitmask({ ...plan, bitmaskEntries: () => [] })).toBeNull();
  });
});

describe('observeDeferred', () => {
  it('says what a trace says', () => {
    expect(observeDeferred(plan)).toEqual({
      spec: [['r1', [900, 901]]],
      invalid: { r1: 1 },
      bitmask: ['r4', 'r1'],
    });
  });
});

describe('observeOutputs', () => {
  it('says what a trace says', () => {
    const outputs: SubjectOutputs = {
      length: 7,
      requests: [
        request('r1'),
        request('r2'),
        request('r3', { stopReason: 3 }),
        request('r4'),
        request('r5'),
        request('r6', { finishedParams: {} }),
        request('r7', { stopReason: 3, finishedParams: {} }),
        request('stale'),
      ],
      tokens: Int32Array.of(0, 7, 8, 2, 3, 9),
      tokenOffsets: Int32Array.of(1, 3, 4, 5, 5, 0, 0, 0),
      tokenCounts: Int32Array.of(2, 1, 1, 0, 1, 1, 0, 6),
      finishReasons: Uint8Array.of(0, 1, 1, 4, 2, 1, 4, 3),
    };
    expect(observeOutputs(outputs)).toEqual([
      ['r1', [7, 8], null],
      ['r2', [2], 'stop'],
      ['r3', [3], 'stop', 3, 0],
      ['r4', [], 'error'],
      ['r5', [9], 'length'],
      ['r6', [0], 'stop', null, 1],
      ['r7', [], 'error', 3, 1],
    ]);
  });
});

describe('observeState', () => {
  const subject = {
    core: core(),
    numUnfinished: 4,
    inspect: () => ({
      running: ['r1'],
      waiting: ['r3', 'r2'],
      skipped: ['r4'],
      requests: [
        request('r1', { numComputedTokens: 4, numTokens: 5 }),
        request('r2', { numTokens: 9 }),
        request('r3', { numTokens: 9, numOutputPlaceholders: 1 }),
        request('r4', { numTokens: 9, numDraftTokens: 2 }),
      ],
      draining: [request('r5', { numTokens: 9, numComputedTokens: 9 })],
    }),
  };
  const state = {
    free: 3,
    usage: 0.625,
    // zlib.crc32(b"5,1,7") in Python
    fq: 3777139051,
    cached: 2,
    run: ['r1'],
    wait: ['r3', 'r2'],
    skip: ['r4'],
    unf: 4,
    reqs: [
      ['r1', 4, 5, 0, 0],
      ['r3', 0, 9, 1, 0],
      ['r4', 0, 9, 0, 2],
    ],
  };

  it('says what a trace says', () => {
    expect(observePool(subject.core)).toEqual({ free: 3, usage: 0.625 });
    expect(observeState(subject)).toEqual(state);
  });

  it('says what a trace with KV cache groups says', () => {
    const published = { ...subject.core, publishedGroup: (id: number) => (id === 1 ? 1 : 0) };
    const withRow = { ...subject, core: { ...published, ...core({ 0: [5, 6] }) } };
    const groups = new TraceGroups(1, ['r1', 'r2', 'r3', 'r4', 'r5']);
    const rows = crc32('r1:5,6;r2:5,6;r3:5,6;r4:5,6;r5:5,6');
    const also = { cached_by_group: [1], rows };
    expect(observeState(withRow, groups)).toEqual({ ...state, ...also });
    expect(observeFinal(withRow, groups)).toMatchObject({ ...also, cached_groups: [1, 0] });
  });

  it('leaves out of what was recorded the counters of requests that have finished', () => {
    const live = state.reqs.slice(0, 2) as [string, number, number, number, number][];
    const reqs = [...live, ['r5', 9, 9, 1, 2] as (typeof live)[number]];
    expect(recordedState({ free: 1, reqs }, subject)).toEqual({ free: 1, reqs: live });
    expect(recordedState({ free: 1 }, subject)).toEqual({ free: 1 });
  });

  it('adds what only the end of a trace has', () => {
    const ids = ['r1', 'r2', 'r3', 'r4', 'r5'];
    expect(observeFinal(subject)).toEqual({
      ...state,
      free_queue: [5, 1, 7],
      cached_ids: [1, 4],
      requests_left: ids,
    });
  });
});

describe('round6', () => {
  it.each([
    [0, 0],
    [1, 1],
    [1 - 387 / 399, 0.030075],
    // exact ties go to the even digit, as in Python
    [1 / 128, 0.007812],
    [3 / 128, 0.023438],
    [5 / 128, 0.039062],
    // the nearest doubles to these decimal ties lie off the tie
    [0.0000025, 0.000003],
    [0.0000035, 0.000003],
  ])('%f -> %f', (x, rounded) => {
    expect(round6(x)).toBe(rounded);
  });
});
