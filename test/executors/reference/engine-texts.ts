// An engine over the reference executor, on the host or on a GPU.
import { expect, it } from 'vitest';
import {
  Engine,
  ReferenceExecutor,
  type ReferenceExecutorOptions,
  type SchedulerOptions,
} from '../../../src/index.js';
import { leftovers, Random } from '../../support/engine-bench.js';

type Depth = 1 | 2 | 3;
export type Sizes = SchedulerOptions & { pipelineDepth: Depth };

/** On the host steps are computed later, in turns of the event loop. */
export const ON_HOST: Where = { defer: (act) => setImmediate(act) };

/** The device on which the reference executor computes. */
export type Where = Pick<ReferenceExecutorOptions, 'device' | 'defer'>;

/** An engine over real KV data, which finds every wrong block. */
export function makeEngine(sizes: Sizes, where: Where): { engine: Engine; executor: ReferenceExecutor } {
  const executor = new ReferenceExecutor({ ...sizes, seed: 5, eosTokenId: 1, ...where });
  return { engine: new Engine({ hashSeed: 7, executor, ...sizes }), executor };
}

/** A text with repeats in it, so that it has a continuation, and beginnings that several have in common. */
function promptOf(random: Random): Int32Array {
  const words = 4 + random.below(3);
  const first = 10 * (1 + random.below(3));
  return Int32Array.from({ length: 6 + random.below(18) }, (_, i) => first + ((i * 7) % words));
}

/** The text that a request gets when it has a large engine on the host for itself. */
async function alone(prompt: Int32Array, maxTokens: number): Promise<number[]> {
  const { engine } = makeEngine({ numBlocks: 200, blockSize: 4, maxModelLen: 64, pipelineDepth: 1 }, ON_HOST);
  void engine.run();
  const { tokens } = await engine.submit({ prompt, maxTokens, eosTokenId: 1 }).result();
  await engine.shutdown();
  return [...tokens];
}

/** Sixty clients over a pool that is too small for them, some of whom leave early. */
export function itGivesTheTextsOfRequestsAlone(where: Where): void {
  it.each([1, 2, 3] as const)(
    'are those of a request alone, whatever happens beside it (depth %i)',
    async (pipelineDepth) => {
      const random = new Random(pipelineDepth);
      const { engine, executor } = makeEngine(
        {
          numBlocks: 24,
          blockSize: 4,
          maxNumSeqs: 6,
          maxNumBatchedTokens: 24,
          maxModelLen: 64,
          numSpeculativeTokens: pipelineDepth === 2 ? 2 : 0,
          pipelineDepth,
        },
        where,
      );
      void engine.run();
      const clients = Array.from({ length: 60 }, async (_, n) => {
        const input = { prompt: promptOf(random), maxTokens: 2 + random.below(24), eosTokenId: 1 };
        const leavesAfter = random.chance(25) ? 1 + random.below(6) : Number.POSITIVE_INFINITY;
        const pause = random.below(3);
        for (let i = 0; i < n; i++) await new Promise((resolve) => setImmediate(resolve));
        const stream = engine.submit(input);
        const read: number[] = [];
        for await (const { tokens } of stream) {
          read.push(...tokens);
          if (read.length > leavesAfter) break;
          for (let i = 0; i < pause; i++) await new Promise((resolve) => setImmediate(resolve));
        }
        const { finishReason } = await stream.result();
        return { input, read, finishReason };
      });
      const reasons = new Set<string>();
      for (const { input, read, finishReason } of await Promise.all(clients)) {
        const right = await alone(input.prompt, input.maxTokens);
        expect(read).toEqual(finishReason === 'abort' ? right.slice(0, read.length) : right);
        reasons.add(finishReason);
      }
      expect([...reasons]).toEqual(expect.arrayContaining(['abort', 'length']));
      expect(engine.stats().scheduler.numPreemptions).toBeGreaterThan(0);
      expect(engine.stats().scheduler.prefixCacheHits).toBeGreaterThan(0);
      expect(executor.faults).toEqual([]);
      for (let i = 0; engine.hasWork(); i++) {
        expect(i).toBeLessThan(1000);
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
      expect(leftovers(engine)).toEqual([]);
      await engine.shutdown();
    },
  );
}
