// A server with 1,000 running requests that hold most of its 100,000 blocks.
import type { Executor } from '../../../src/index.js';
import { until } from '../../support/waiting.js';
import { serve } from './served.js';

/** Answers every step with a token for each request that is due, after some milliseconds. */
function steady(ms: number): Executor {
  return {
    usesTables: false,
    execute: async ({ numRequests, maxOutputTokens }) => {
      const counts = Int32Array.from(maxOutputTokens.subarray(0, numRequests), (most) => Math.min(1, most));
      const tokens = new Int32Array(counts.reduce((sum, count) => sum + count, 0)).fill(1000);
      await new Promise((resolve) => setTimeout(resolve, ms));
      return { tokens, counts };
    },
  };
}

/** A server with 100,000 blocks, of which 1,000 running requests hold most. Its steps take `ms` milliseconds and compute nothing. */
export async function serveCrowd(ms = 20) {
  const numBlocks = 100_001;
  const served = await serve({
    engine: {
      numBlocks,
      maxNumSeqs: 1000,
      maxNumBatchedTokens: 2_000_000,
      maxModelLen: 4096,
      executor: steady(ms),
    },
  });
  const { engine, post } = served;
  for (let i = 0; i < 10; i++) {
    const prompt = Array.from({ length: 100 }, (_, j) =>
      Array.from({ length: 1400 }, (_, k) => 1000 + ((100 * i + j + k * k) % 90_000)),
    );
    // Nobody waits for the answer: the end of the test is its end too.
    post('/v1/completions', { prompt, max_tokens: 2500, ignore_eos: true }).catch(() => {});
  }
  await until(() => engine.numRunning === 1000, 'a thousand running requests');
  return { ...served, numBlocks };
}
