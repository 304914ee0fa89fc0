// The example of a host tier loads KV correctly at every depth.
import { describe, expect, it } from 'vitest';
import { HostTier, HostTierWorker } from '../../examples/host-tier.js';
import { Engine, ReferenceExecutor } from '../../src/index.js';
import { unpagedText, wordy } from '../executors/reference/support.js';
import { Random, settled } from '../support/engine-bench.js';

const BLOCK = 4;
const TOKENS = 9;
const PLACES = 2000;

/** An engine over the example, with a pool so small that nothing stays in it. */
function serve(pipelineDepth: 1 | 2 | 3, seed: number) {
  const sizes = { numBlocks: 41, blockSize: BLOCK, maxNumSeqs: 6, maxNumBatchedTokens: 48, maxModelLen: 64 };
  const waiting: (() => void)[] = [];
  const executor = new ReferenceExecutor({
    ...sizes,
    pipelineDepth,
    seed: 3,
    defer: (compute) => waiting.push(compute),
  });
  const tier = new HostTier({ places: PLACES, numRanks: 1 });
  const worker = new HostTierWorker({
    kv: executor.kv,
    places: PLACES,
    arrived: (handle, blocks) => executor.adopt(handle, blocks),
  });
  const engine = new Engine({
    ...{ ...sizes, pipelineDepth, hashSeed: seed, strict: true },
    executor,
    connector: tier,
    workers: [worker],
  });
  return { engine, executor, waiting };
}

describe.each([1, 2, 3] as const)('the example of a host tier at depth %i', (depth) => {
  it.each([1, 2, 3])('every text is that of an unpaged computation (seed %i)', async (seed) => {
    const random = new Random(depth * 10 + seed);
    const { engine, executor, waiting } = serve(depth, seed);
    const prompts = Array.from({ length: 9 }, (_, i) => wordy(13 + 5 * (i % 4), i));
    const texts: Promise<void>[] = [];
    let submitted = 0;
    for (let round = 0; submitted < 70 || engine.hasWork(); round++) {
      if (round > 50_000) throw new Error(`still at work: ${JSON.stringify(engine.stats().scheduler)}`);
      if (submitted < 70 && random.chance(30)) {
        const prompt = prompts[random.below(prompts.length)];
        const stream = engine.submit({ prompt, maxTokens: TOKENS });
        submitted++;
        const abortAt = random.chance(15) ? round + random.below(30) : -1;
        texts.push(
          stream.result().then(({ tokens, finishReason }) => {
            expect([...tokens]).toEqual(unpagedText(prompt, TOKENS, { seed: 3 }).slice(0, tokens.length));
            if (abortAt < 0) expect(finishReason).toBe('length');
          }),
        );
        if (abortAt >= 0) queueMicrotask(() => stream.abort());
      }
      engine.step();
      if (random.chance(60)) waiting.shift()?.();
      await settled();
      if (round % 16 === 0) engine.verify();
      // The lanes' threads want a turn.
      if (random.chance(20)) await new Promise((resolve) => setTimeout(resolve, 1));
    }
    await Promise.all(texts);
    expect(executor.faults).toEqual([]);
    const { scheduler, workerFailures } = engine.stats();
    expect(scheduler).toMatchObject({ numDraining: 0, rowsInUse: 0, freeBlocks: 40 });
    expect(scheduler.anomalies).toEqual({});
    expect(workerFailures).toBe(0);
    // Else this would have shown nothing.
    expect(scheduler.externalHits).toBeGreaterThan(100);
    expect(engine.resetPrefixCache({ resetConnector: true })).toMatchObject({ ok: true, connector: true });
    engine.dispose();
  });
});
