// Over a pool so small that nothing stays in it, every text is right at every depth.
import { describe, expect, it } from 'vitest';
import { Engine, ReferenceExecutor } from '../../../src/index.js';
import { unpagedText, wordy } from '../../executors/reference/support.js';
import { Random, settled } from '../../support/engine-bench.js';
import { schedulerOf } from '../../support/scheduler-of.js';
import { HostTier, LaneConnector, LaneWorker } from './lane-connector.js';

const BLOCK = 4;
const TOKENS = 9;

/** An engine whose KV really goes to a host tier and back, over a pool so small that nothing stays in it. */
function serve(pipelineDepth: 1 | 2 | 3, mode: 'sync' | 'async' | 'mixed', seed: number) {
  const numBlocks = 41;
  const waiting: (() => void)[] = [];
  const executor = new ReferenceExecutor({
    numBlocks,
    blockSize: BLOCK,
    maxNumSeqs: 6,
    maxNumBatchedTokens: 48,
    maxModelLen: 64,
    pipelineDepth,
    seed: 3,
    defer: (compute) => waiting.push(compute),
  });
  const tier = new HostTier();
  const connector = new LaneConnector(
    tier,
    ({ handle }) => mode === 'async' || (mode === 'mixed' && handle % 2 === 0),
  );
  const worker = new LaneWorker(executor, tier, 4000);
  const options = { numBlocks, blockSize: BLOCK, maxNumSeqs: 6, maxNumBatchedTokens: 48, maxModelLen: 64 };
  const engine = new Engine({
    ...options,
    pipelineDepth,
    hashSeed: seed,
    executor,
    connector,
    workers: [worker],
    strict: true,
  });
  connector.scheduler = schedulerOf(engine);
  return { engine, executor, worker, waiting };
}

/** Steps until nothing is left, computing steps and settling promises in an order drawn by the seed. */
async function drive(engine: Engine, waiting: (() => void)[], random: Random, meanwhile: () => boolean) {
  for (let round = 0; meanwhile() || engine.hasWork(); round++) {
    if (round > 20_000) throw new Error(`still at work: ${JSON.stringify(engine.stats().scheduler)}`);
    engine.step();
    if (random.chance(60)) waiting.shift()?.();
    await settled();
    if (round % 16 === 0) engine.verify();
    // Lanes have threads of their own; a busy loop here would only show that they are slower.
    if (random.chance(20)) await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

describe.each([1, 2, 3] as const)('KV that goes to host memory and back at depth %i', (depth) => {
  it.each(['async', 'sync', 'mixed'] as const)(
    '%s loads: every text is that of an unpaged computation',
    async (mode) => {
      const random = new Random(depth * 10 + mode.length);
      const { engine, executor, worker, waiting } = serve(depth, mode, depth);
      const prompts = Array.from({ length: 9 }, (_, i) => wordy(13 + 5 * (i % 4), i));
      const texts: Promise<void>[] = [];
      const aborted = new Set<string>();
      let submitted = 0;
      await drive(engine, waiting, random, () => {
        if (submitted < 70 && random.chance(30)) {
          const prompt = prompts[random.below(prompts.length)];
          const stream = engine.submit({ prompt, maxTokens: TOKENS });
          submitted++;
          texts.push(
            stream.result().then(({ tokens, finishReason }) => {
              const right = unpagedText(prompt, TOKENS, { seed: 3 });
              expect([...tokens]).toEqual(right.slice(0, tokens.length));
              if (!aborted.has(stream.id)) expect(finishReason).toBe('length');
            }),
          );
          if (random.chance(15)) {
            aborted.add(stream.id);
            setTimeout(() => stream.abort(), random.below(8));
          }
        }
        return submitted < 70;
      });
      await Promise.all(texts);
      expect(executor.faults).toEqual([]);
      const { scheduler, workerFailures } = engine.stats();
      expect(scheduler).toMatchObject({ numDraining: 0, rowsInUse: 0, freeBlocks: 40 });
      expect(scheduler.anomalies).toEqual({});
      expect(workerFailures).toBe(0);
      expect(worker.jobs.size).toBe(0);
      // Else this would have shown nothing.
      expect(worker.stored).toBeGreaterThan(30);
      expect(worker.loaded).toBeGreaterThan(30);
      expect(scheduler.externalHits).toBeGreaterThan(100);
      engine.dispose();
    },
  );
});
