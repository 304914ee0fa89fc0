// Stores and their times, evictions; the limit of pins.
import { describe, expect, it } from 'vitest';
import { Verdict } from '../../../src/transfer.js';
import { unpagedText, wordy } from '../../executors/reference/support.js';
import { OffloadBench, SEED } from './support.js';

describe.each([1, 2, 3] as const)('stores of an offload at depth %i', (pipelineDepth) => {
  const engine = { pipelineDepth };

  it('begin while the request still generates, one for each plan, each content once', async () => {
    using bench = new OffloadBench({ engine });
    const prompt = wordy(16, 1);
    const streams = [0, 1].map(() => bench.submit({ prompt, maxTokens: 20 }));
    let whileRunning = 0;
    while (bench.engine.hasWork()) {
      bench.engine.step();
      await bench.compute();
      bench.copyAll();
      if (bench.engine.numRunning === 2) whileRunning = bench.connector.stats().host.stores.blocks;
    }
    expect(whileRunning).toBeGreaterThan(4);
    for (const stream of streams) expect((await stream.result()).finishReason).toBe('length');
    // Both requests have the same text, whose last token has no KV.
    const { host } = bench.connector.stats();
    expect([host.stores.blocks, host.blocks]).toEqual([8, 8]);
    await bench.serve({ prompt, maxTokens: 20 });
    expect(bench.connector.stats().host.stores.blocks).toBe(8);
    expect(bench.leftovers()).toEqual([]);
  });

  it('are none of what a failed step was to compute: whoever comes with the same prompt computes it', async () => {
    for (const failing of [0, 1]) {
      using bench = new OffloadBench({ engine: { ...engine, maxNumBatchedTokens: 16 } });
      let numFailed = 0;
      bench.executor.fails = ({ numComputedTokens }) =>
        numFailed === 0 && numComputedTokens[0] === 16 * failing && ++numFailed > 0;
      const prompt = wordy(30, 1);
      await expect(bench.serve({ prompt, maxTokens: 4 })).rejects.toMatchObject({
        code: 'ERR_BLOCKSTEP_EXECUTOR',
      });
      expect(bench.connector.stats().host.blocks).toBe(4 * failing);
      const { tokens, numCachedTokens } = await bench.serve({ prompt, maxTokens: 4 });
      expect(numCachedTokens).toBe(16 * failing);
      expect([...tokens]).toEqual(unpagedText(prompt, 4, { seed: SEED }));
      expect(bench.leftovers()).toEqual([]);
    }
  });

  it('keep at most maxPinnedBlocks from others, and store the rest later', async () => {
    using bench = new OffloadBench({ engine, offload: { maxPinnedBlocks: 2 } });
    const stream = bench.submit({ prompt: wordy(32, 1), maxTokens: 24 });
    let most = 0;
    while (bench.engine.hasWork()) {
      bench.engine.step();
      most = Math.max(most, bench.connector.stats().pinnedBlocks);
      await bench.compute();
      bench.copyAll();
    }
    expect((await stream.result()).finishReason).toBe('length');
    const { host } = bench.connector.stats();
    expect(most).toBe(2);
    expect(host.blocks + host.stores.skippedBlocks).toBe(13);
    expect(host.blocks).toBeGreaterThan(8);
    expect(bench.leftovers()).toEqual([]);
  });

  it('of a quarter of the pool by default, and an aborted request leaves the rest unpinned', async () => {
    using bench = new OffloadBench({ engine });
    const stream = bench.submit({ prompt: wordy(47, 1), maxTokens: 10 });
    for (let i = 0; i < 6; i++) {
      bench.engine.step();
      await bench.compute();
    }
    expect(bench.connector.stats().pinnedBlocks).toBe(10);
    stream.abort();
    bench.engine.step();
    // Everything else is free at once.
    expect(bench.engine.stats().scheduler.freeBlocks).toBe(30);
    await bench.finish();
    expect(bench.connector.stats().host.blocks).toBe(10);
    expect(bench.leftovers()).toEqual([]);
  });

  it('that failed on one rank are no content, and the place is free again', async () => {
    using bench = new OffloadBench({ engine, numRanks: 2 });
    const prompt = wordy(16, 1);
    const stream = bench.submit({ prompt, maxTokens: 2 });
    while (bench.engine.hasWork()) {
      bench.engine.step();
      await bench.compute();
      bench.lanes[1].next();
      bench.lanes[3].next(Verdict.failed);
    }
    await stream.result();
    const { host } = bench.connector.stats();
    expect(host.stores.failed).toBeGreaterThan(0);
    expect([host.blocks, host.places.free]).toEqual([0, 200]);
    bench.engine.resetPrefixCache();
    const { tokens } = await bench.serve({ prompt, maxTokens: 2 });
    expect([...tokens]).toEqual(unpagedText(prompt, 2, { seed: SEED }));
    expect(bench.connector.stats().host.blocks).toBe(4);
    expect(bench.leftovers()).toEqual([]);
  });

  it('make room by dropping what was not used for longest', async () => {
    using bench = new OffloadBench({ engine, offload: { hostBlocks: 10 } });
    const [a, b, c] = [1, 2, 3].map((which) => ({ prompt: wordy(17, which), maxTokens: 1 }));
    for (const input of [a, b]) await bench.serve(input);
    bench.engine.resetPrefixCache();
    await bench.serve(a); // used again, so b goes first
    await bench.serve(c);
    bench.engine.resetPrefixCache();
    const hits = () => bench.connector.stats().host.hitTokens;
    const before = hits();
    await bench.serve(a);
    expect(hits() - before).toBe(16);
    expect(bench.connector.stats().host.evictions).toBeGreaterThan(0);
    await bench.serve(b);
    expect(hits() - before).toBeLessThan(32);
    expect(bench.leftovers()).toEqual([]);
  });
});
