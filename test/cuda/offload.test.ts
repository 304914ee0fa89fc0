// An offload of the KV memory of a GPU to pinned memory.
import '../support/gpu.js';
import { describe, expect, it } from 'vitest';
import { offload } from '../../src/connectors/offload/index.js';
import { Engine, ReferenceExecutor } from '../../src/index.js';
import { unpagedText, wordy } from '../executors/reference/support.js';
import { Random } from '../support/engine-bench.js';

describe('an offload of the KV memory of a GPU', () => {
  it.each([1, 2, 3] as const)(
    'keeps its tier in pinned memory, and gives the right texts (depth %i)',
    async (pipelineDepth) => {
      const sizes = {
        numBlocks: 41,
        blockSize: 4,
        maxNumSeqs: 6,
        maxNumBatchedTokens: 48,
        maxModelLen: 64,
        pipelineDepth,
      };
      const executor = new ReferenceExecutor({ ...sizes, seed: 3, device: 'cuda' });
      const { connector, workers } = offload({ memory: executor, hostBlocks: 400, strict: true });
      const { stream, device } = executor;
      const engine = new Engine({
        ...sizes,
        hashSeed: 7,
        strict: true,
        device,
        stream,
        executor,
        connector,
        workers,
      });
      void engine.run();
      const alive = setInterval(() => {}, 1000);
      const random = new Random(pipelineDepth);
      let left = 40;
      const client = async (): Promise<void> => {
        while (left-- > 0) {
          const which = random.below(10);
          const prompt = wordy(13 + 5 * (which % 4), which);
          const { tokens, finishReason } = await engine.submit({ prompt, maxTokens: 9 }).result();
          expect(finishReason).toBe('length');
          expect([...tokens]).toEqual(unpagedText(prompt, 9, { seed: 3 }));
        }
      };
      await Promise.all([client(), client(), client(), client()]);
      clearInterval(alive);
      expect(executor.faults).toEqual([]);
      expect(connector.stats().host.hits).toBeGreaterThan(5);
      expect(workers[0].stats()).toMatchObject({ failed: 0, lastError: null });
      await engine.shutdown();
      executor.dispose();
    },
  );
});
