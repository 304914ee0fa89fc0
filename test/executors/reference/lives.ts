// Random lives of the reference executor, and the suite for one device.
import { describe, expect, it } from 'vitest';
import type { ReferenceExecutorOptions } from '../../../src/executors/reference/options.js';
import type { SchedulerOptions } from '../../../src/index.js';
import { seeded } from '../../support/core-bench.js';
import { ReferenceDriver, type TablesIn, wordy } from './support.js';

/** Lives that once went wrong: admitted again at depth 3 while drafts of the residency before were still in flight. */
export const RARE = [107, 161, 275, 488, 3191, 5858];

type Next = (n: number) => number;

/** A configuration under pressure, its features drawn by the seed. */
function drawOptions(next: Next, depth: 1 | 2 | 3): Partial<SchedulerOptions> {
  return {
    pipelineDepth: depth,
    numBlocks: 12 + next(16),
    blockSize: [2, 4][next(2)],
    maxNumSeqs: 2 + next(5),
    maxNumBatchedTokens: 6 + next(30),
    maxModelLen: 48,
    policy: next(2) === 0 ? 'priority' : 'fcfs',
    enablePrefixCaching: next(10) > 0,
    longPrefillTokenThreshold: next(3) === 0 ? 5 : 0,
    reserveFullIsl: next(2) === 0,
    numSpeculativeTokens: next(2) === 0 ? 1 + next(4) : 0,
    speculativeMethod: (['ngram', 'eagle', 'draft_model'] as const)[next(3)],
  };
}

function drawReference(next: Next): Partial<ReferenceExecutorOptions> {
  return {
    seed: next(1000),
    draftErrorRate: [0, 0.3, 1][next(3)],
    ...(next(3) === 0 ? { eosTokenId: 3 } : {}),
  };
}

/** A random life of requests: sharing prefixes, aborted, preempted, reset; with steps in flight. */
export async function live(driver: ReferenceDriver, next: Next, events: number): Promise<void> {
  const { scheduler } = driver;
  const ids: string[] = [];
  for (let i = 0; i < events; i++) {
    const dice = next(100);
    if (dice < 22) {
      const id = next(4) === 0 ? `s${next(3)}` : `r${i}`;
      if (scheduler.get(id) !== undefined) continue;
      const { blockSize, numBlocks } = scheduler.config;
      const length = 1 + next(Math.min(28, (numBlocks - 1) * blockSize));
      driver.add({
        id,
        prompt: wordy(length, next(3)),
        maxTokens: 1 + next(16),
        priority: next(3),
        ...(next(3) === 0 ? { eosTokenId: 3 } : {}),
        ...(next(5) === 0 ? { cacheSalt: `salt${next(2)}` } : {}),
        ...(next(8) === 0 ? { adapter: 'lora' } : {}),
      });
      ids.push(id);
    } else if (dice < 60) {
      if (driver.inFlight.length < scheduler.config.pipelineDepth) driver.schedule();
    } else if (dice < 86) {
      if (driver.inFlight.length > 0) await driver.update();
    } else if (dice < 90) driver.computeAll();
    else if (dice < 95 && ids.length > 0) scheduler.abort(ids[next(ids.length)]);
    else if (dice < 96) scheduler.abortAll();
    else if (dice < 97) scheduler.resetPrefixCache({ resetRunning: next(2) === 0 });
    else if (dice < 98) scheduler.pause(next(2) === 0 ? 'new' : 'all');
    else scheduler.resume();
  }
  scheduler.resume();
  while (driver.inFlight.length > 0) await driver.update();
  await driver.run();
}

/** Lives by seeds, each with a configuration of its own: every text must be right, and the memory must never be wrong. */
export function describeLives(
  seeds: Iterable<number>,
  reference: Partial<ReferenceExecutorOptions>,
  tables: TablesIn = 'pinned',
): void {
  describe('random lives over a small pool', () => {
    for (const seed of seeds) {
      it(`seed ${seed}: every text is that of an unpaged computation, and the memory is never wrong`, async () => {
        const next = seeded(seed);
        const options = drawOptions(next, (1 + (seed % 3)) as 1 | 2 | 3);
        using driver = new ReferenceDriver(options, { ...drawReference(next), ...reference }, tables);
        await live(driver, next, 400);
        for (const [handle, text] of driver.texts) expect(text).toEqual(driver.expectedText(handle));
        expect(driver.executor.faults).toEqual([]);
        expect(driver.scheduler.core.freeBlocks).toBe((options.numBlocks as number) - 1);
      });
    }
  });
}
