// Logs of schedulers with groups.
import { expect, it } from 'vitest';
import { Random } from '../../../src/base/random.js';
import { Scheduler, type SchedulerOptions } from '../../../src/index.js';
import { replayCommands, replayInputs } from '../../../src/replay.js';

const GROUPS: [name: string, groups: NonNullable<SchedulerOptions['kvGroups']>][] = [
  [
    'a window',
    [
      { type: 'full', blockSize: 8 },
      { type: 'sliding', window: 6 },
    ],
  ],
  ['states', [{ type: 'mamba' }, { type: 'full' }]],
  [
    'a sink and a chunk',
    [
      { type: 'sink', sinkTokens: 8 },
      { type: 'chunked', chunk: 12 },
    ],
  ],
];

it.each(GROUPS)('a log with %s gives the same decisions and the same state again', (_, kvGroups) => {
  const parts: Uint8Array[] = [];
  let now = 0;
  const scheduler = new Scheduler({
    numBlocks: 40,
    blockSize: 4,
    maxModelLen: 64,
    maxNumSeqs: 6,
    maxNumBatchedTokens: 24,
    hashSeed: 3,
    now: () => now++,
    kvGroups,
    log: { write: (bytes) => void parts.push(bytes) },
  });
  const random = new Random(7);
  for (let step = 0; step < 150; step++) {
    if (random.below(3) === 0) {
      const prompt = Int32Array.from({ length: 1 + random.below(40) }, (_token, i) => i);
      scheduler.add({ id: `r${step}`, prompt, maxTokens: 1 + random.below(12) });
    }
    const plan = scheduler.schedule();
    const counts = Int32Array.from(plan.maxOutputTokens.subarray(0, plan.numRequests));
    const total = counts.reduce((sum, count) => sum + count, 0);
    scheduler.update(plan, { tokens: new Int32Array(total).fill(9), counts });
  }
  const { numPreemptions, prefixCacheHits } = scheduler.stats();
  expect(numPreemptions + prefixCacheHits).toBeGreaterThan(0);
  const bytes = Buffer.concat(parts);
  expect(replayCommands(bytes).digest).toBe(scheduler.digest());
  using again = replayInputs(bytes);
  expect(again.digest()).toBe(scheduler.digest());
  scheduler.dispose();
});
