// No request waits for ever in a small pool: sessions with groups of all types, drafts and states.
import { describe, expect, it, onTestFinished } from 'vitest';
import { type KvGroupOptions, Scheduler, type SchedulerOptions } from '../../../src/index.js';
import { carryRules, type WithRules } from '../../../src/scheduler/options/single-rules.js';
import { codeOf, prompt, Random } from '../../support/driver.js';

const NO_DEADLINES = { queue: 0, streamingInput: 0, grammar: 0, load: 0, reclaim: 0 };

function make(options: WithRules<SchedulerOptions>): Scheduler {
  const scheduler = new Scheduler({ ...carryRules(options), deadlines: NO_DEADLINES });
  onTestFinished(() => scheduler.dispose());
  return scheduler;
}

/**
 * Steps until nothing is left to do, or nothing was scheduled 20 times in a row.
 * @returns whether every request ended
 */
function lives(scheduler: Scheduler, random = new Random(0), onStep: (step: number) => boolean = () => true) {
  const drafts = scheduler.config.numSpeculativeTokens;
  let idle = 0;
  for (let step = 0; idle < 20 && step < 2000; step++) {
    const isAllSaid = onStep(step);
    const plan = scheduler.schedule();
    scheduler.verify();
    idle = plan.totalTokens === 0 && isAllSaid ? idle + 1 : 0;
    const counts = Int32Array.from(plan.maxOutputTokens.subarray(0, plan.numRequests), (most) =>
      most === 0 ? 0 : 1 + random.below(most),
    );
    const tokens = new Int32Array(counts.reduce((sum, count) => sum + count, 0)).fill(7);
    scheduler.update(plan, { tokens, counts });
    const given = counts.map(() => random.below(drafts + 1));
    const numGiven = given.reduce((sum, count) => sum + count, 0);
    if (drafts > 0)
      scheduler.updateDraftTokens(plan, { tokens: new Int32Array(numGiven).fill(8), counts: given });
  }
  return scheduler.numUnfinished === 0;
}

describe('a session that alone waits holds more than a new request of the same text would', () => {
  function goesOn(reclaimIdleSessions: boolean): boolean {
    const scheduler = make({
      ...{ numBlocks: 8, blockSize: 4, maxModelLen: 32, maxNumBatchedTokens: 32, numSpeculativeTokens: 2 },
      kvGroups: [{ type: 'mamba', mode: 'align' }, { type: 'full' }],
      deviations: reclaimIdleSessions || ['reclaimIdleSessions'],
    });
    scheduler.add({ id: 's', prompt: prompt(5), maxTokens: 1, resumable: true });
    scheduler.addChunk('s', { prompt: prompt(6, 1), maxTokens: 1 });
    scheduler.endSession('s');
    const allEnd = lives(scheduler, new Random(0), (step) => {
      // A later request queues behind the session, and would starve with it.
      if (step === 3) scheduler.add({ id: 'behind', prompt: prompt(3, 2), maxTokens: 1 });
      return step >= 3;
    });
    expect(scheduler.stats().sessionsReclaimed).toBe(reclaimIdleSessions ? 1 : 0);
    return allEnd;
  }

  it('gives up its own blocks, and begins again', () => expect(goesOn(true)).toBe(true));
  it('off: it waits for ever, as in vLLM', () => expect(goesOn(false)).toBe(false));
});

describe('a pool is measured by what an admission and a step really take', () => {
  it('of states without a prefix cache, in blocks of their own size', () => {
    const kvGroups: KvGroupOptions[] = [{ type: 'mamba', mode: 'none', blockSize: 2 }];
    const options = { numBlocks: 8, blockSize: 2, maxModelLen: 40, kvGroups, enablePrefixCaching: false };
    const whole = make({ ...options, maxNumBatchedTokens: 40 });
    expect(codeOf(() => whole.add({ id: 'a', prompt: prompt(15), maxTokens: 1 }))).toBe(
      'ERR_BLOCKSTEP_UNFIT',
    );
    whole.add({ id: 'b', prompt: prompt(14), maxTokens: 1 });
    expect(lives(whole)).toBe(true);
    // In steps of two tokens three states are enough for any text.
    const chunked = make({ ...options, maxNumBatchedTokens: 2 });
    chunked.add({ id: 'a', prompt: prompt(35), maxTokens: 1 });
    expect(lives(chunked)).toBe(true);
  });

  it('of states of drafts, which are kept until none can be rejected', () => {
    const scheduler = make({
      ...{ numBlocks: 16, blockSize: 2, maxModelLen: 39, maxNumBatchedTokens: 2 },
      ...{ numSpeculativeTokens: 3, speculativeMethod: 'draft_model' },
      kvGroups: [{ type: 'mamba', mode: 'all' }, { type: 'sink', sinkTokens: 2 }, { type: 'mla' }],
    });
    scheduler.add({ id: 'a', prompt: prompt(5), maxTokens: 1 });
    expect(lives(scheduler)).toBe(true);
  });
});

it('a padded admission whose tokens end with a block is not padded, with `padWholeRows`', () => {
  const tokensOf = (padWholeRows: boolean): number[] => {
    const scheduler = make({
      ...{ numBlocks: 40, blockSize: 2, maxModelLen: 40, maxNumSeqs: 2, numSpeculativeTokens: 1 },
      ...{
        kvGroups: [{ type: 'mamba', mode: 'align' }],
        padDecode: true,
        deviations: padWholeRows || ['padWholeRows'],
      },
    });
    scheduler.add({ id: 'other', prompt: prompt(3, 1), maxTokens: 30 });
    scheduler.add({ id: 's', prompt: prompt(3), maxTokens: 1, resumable: true });
    const bring = () => {
      const plan = scheduler.schedule();
      const counts = Int32Array.from(plan.maxOutputTokens.subarray(0, plan.numRequests), (most) =>
        Math.min(1, most),
      );
      const tokens = new Int32Array(counts.reduce((sum, count) => sum + count, 0)).fill(7);
      scheduler.update(plan, { tokens, counts });
      return plan;
    };
    while (scheduler.get('s')?.status !== 'WAITING_FOR_STREAMING_REQ') bring();
    scheduler.addChunk('s', { prompt: prompt(1, 2), maxTokens: 4 });
    const plan = bring();
    const at = plan.requests.slice(0, plan.numRequests).findIndex(({ id }) => id === 's');
    return [plan.numScheduledTokens[at], plan.numDraftTokens[at]];
  };
  expect(tokensOf(true)).toEqual([1, 0]);
  expect(tokensOf(false)).toEqual([1, 1]);
});

const TYPES = ['full', 'sink', 'sliding', 'chunked', 'mamba', 'mamba', 'mamba'] as const;

function drawGroup(random: Random, mode: 'none' | 'align' | 'all', blockSize: number): KvGroupOptions {
  const type = TYPES[random.below(TYPES.length)];
  if (type === 'sliding') return { type, window: 1 + random.below(12) };
  if (type === 'chunked') return { type, chunk: 1 + random.below(12) };
  if (type === 'sink') return { type, sinkTokens: blockSize };
  return type === 'mamba' ? { type, mode, blockSize } : { type };
}

/** @returns the scheduler, and the events of each step; null: such options are refused */
function draw(random: Random, drafts: number) {
  const blockSize = 2 + 2 * random.below(2);
  const enablePrefixCaching = random.chance(80);
  const mode = enablePrefixCaching ? (random.chance(50) ? 'align' : 'all') : 'none';
  const options: SchedulerOptions = {
    ...{
      blockSize,
      numBlocks: 4 + random.below(12),
      maxModelLen: 12 + random.below(28),
      enablePrefixCaching,
    },
    ...{
      maxNumSeqs: 1 + random.below(3),
      maxNumBatchedTokens: random.chance(50) ? 32 : blockSize + random.below(8),
    },
    ...{ reserveFullIsl: random.chance(70), numSpeculativeTokens: drafts },
    speculativeMethod: random.chance(50) ? 'ngram' : 'eagle',
    ...(!random.chance(10) && {
      kvGroups: Array.from({ length: 1 + random.below(3) }, () => drawGroup(random, mode, blockSize)),
    }),
  };
  try {
    return make(options);
  } catch {
    return null;
  }
}

describe.each([0, 1, 3])(
  'small sessions in small pools, with groups of all types and %i drafts',
  (drafts) => {
    it('none waits for ever', () => {
      let numLived = 0;
      for (let seed = 0; seed < 120; seed++) {
        const random = new Random(1000 * drafts + seed);
        const scheduler = draw(random, drafts);
        if (scheduler === null) continue;
        const limit = scheduler.config.maxModelLen;
        const says: (() => void)[][] = [];
        for (let i = 0; i < 3; i++) {
          let at = random.below(8);
          const say = (act: () => void) => {
            says[at] = [...(says[at] ?? []), act];
            at += random.below(10);
          };
          const length = 1 + random.below(limit - 2);
          const input = { prompt: prompt(length, random.below(2)), maxTokens: 1 + random.below(5) };
          say(() => scheduler.add({ id: `${i}`, ...input, resumable: true }));
          for (let chunk = random.below(3); chunk > 0; chunk--) {
            const next = { prompt: prompt(1 + random.below(9), 3 + i), maxTokens: 1 + random.below(4) };
            say(() => scheduler.addChunk(`${i}`, next));
          }
          say(() => scheduler.endSession(`${i}`));
        }
        const allEnd = lives(scheduler, random, (step) => {
          for (const act of says[step] ?? []) {
            try {
              act();
            } catch (error) {
              expect(error).toMatchObject({ code: 'ERR_BLOCKSTEP_UNFIT' });
            }
          }
          return step >= says.length;
        });
        expect([seed, allEnd]).toEqual([seed, true]);
        scheduler.dispose();
        numLived++;
      }
      expect(numLived).toBeGreaterThan(60);
    });
  },
);
