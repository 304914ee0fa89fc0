// Hits of windows and states.
import { describe, expect, it, onTestFinished } from 'vitest';
import { type KvGroupOptions, Scheduler, type SchedulerOptions } from '../../../src/index.js';
import { carryRules, type WithRules } from '../../../src/scheduler/options/single-rules.js';

const OPTIONS = { blockSize: 4, numBlocks: 200, maxModelLen: 64, maxNumBatchedTokens: 64 } as const;
const WINDOW: KvGroupOptions[] = [{ type: 'full' }, { type: 'sliding', window: 8 }];

type Texts = readonly (readonly [shared: number, length: number])[];

/**
 * Tokens that each text finds. A text begins as the others for `shared` tokens, and goes on alone.
 * The texts are served one after the other.
 */
function hits(texts: Texts, more: Partial<WithRules<SchedulerOptions>>): number[] {
  const scheduler = new Scheduler({ ...OPTIONS, kvGroups: WINDOW, deadlines: false, ...carryRules(more) });
  onTestFinished(() => scheduler.dispose());
  return texts.map(([shared, length], i) => {
    const prompt = Int32Array.from({ length }, (_, at) => (at < shared ? 100 + at : 1000 * (i + 1) + at));
    scheduler.add({ id: `${i}`, prompt, maxTokens: 1 });
    const plan = scheduler.schedule();
    const [found] = plan.numComputedTokens;
    for (let next = plan; next.totalTokens > 0; next = scheduler.schedule()) {
      const counts = Int32Array.from(next.maxOutputTokens.subarray(0, next.numRequests));
      scheduler.update(next, { tokens: new Int32Array(counts[0]).fill(7), counts });
    }
    return found;
  });
}

describe('what windows keep', () => {
  const parted: Texts = [
    [16, 32],
    [16, 32],
    [16, 32],
  ];

  it.each(['all', 'reachable'] as const)('%s: any beginning is found', (retention) => {
    expect(hits(parted, { retention })).toEqual([0, 16, 16]);
  });

  it('0: the end of a prompt, and from the second text on where prompts part', () => {
    expect(hits(parted, { retention: 0 })).toEqual([0, 0, 16]);
    const same: Texts = [
      [32, 33],
      [32, 33],
    ];
    expect(hits(same, { retention: 0 })).toEqual([0, 32]);
  });

  it('a number: the multiples of it besides', () => {
    expect(hits(parted, { retention: 8 })).toEqual([0, 16, 16]);
    expect(hits(parted, { retention: 12 })).toEqual([0, 12, 16]);
  });

  it('is refused where hits cannot end at its multiples', () => {
    expect(() => hits([], { retention: 6 })).toThrow(
      'retention must be 0, or a multiple of 4, that of all block sizes, got 6',
    );
  });
});

describe('what states keep', () => {
  const kvGroups: KvGroupOptions[] = [{ type: 'full' }, { type: 'mamba', mode: 'all' }];
  const parted: Texts = [
    [16, 32],
    [16, 32],
    [16, 32],
  ];

  it('follows the same ends', () => {
    expect(hits(parted, { kvGroups })).toEqual([0, 16, 16]);
    expect(hits(parted, { kvGroups, retention: 0 })).toEqual([0, 0, 16]);
    expect(hits(parted, { kvGroups, retention: 12 })).toEqual([0, 12, 16]);
  });
});

describe('a window of one token', () => {
  const kvGroups: KvGroupOptions[] = [{ type: 'full' }, { type: 'sliding', window: 1 }];
  const same: Texts = [
    [32, 33],
    [32, 33],
  ];

  it('is found where all is kept, and never where a hit needs no block of it', () => {
    expect(hits(same, { kvGroups })).toEqual([0, 32]);
    expect(hits(same, { kvGroups, retention: 'reachable' })).toEqual([0, 0]);
  });
});

describe('a drafter beside a window with smaller blocks', () => {
  const kvGroups: KvGroupOptions[] = [
    { type: 'full', blockSize: 16 },
    { type: 'sliding', window: 5, blockSize: 4 },
  ];
  const drafts = { kvGroups, speculativeMethod: 'eagle', numSpeculativeTokens: 2 } as const;
  const same: Texts = [
    [49, 49],
    [49, 49],
  ];

  it('finds the block behind a hit that it matches and drops', () => {
    expect(hits(same, { ...drafts, retention: 'reachable' })).toEqual([0, 32]);
    expect(hits(same, { ...drafts, retention: 'all', deviations: ['publishMatchable'] })).toEqual([0, 0]);
  });
});
