// The stand-in for a GPU: lengths of its texts, and requests that may not end yet.
import { describe, expect, it, onTestFinished } from 'vitest';
import { Engine } from '../../../src/engine/engine.js';
import { DEFAULT_COST_MODEL } from '../../../src/executors/cost-model/cost-model.js';
import { SimulatedExecutor } from '../../../src/executors/cost-model/simulated-executor.js';

const END = 99;
const WORDS = Int32Array.from({ length: 50 }, (_, i) => i);
const AT_ONCE = { ...DEFAULT_COST_MODEL, stepOverheadMs: 0, weightBytes: 0, kvBytesPerToken: 0 };

interface Sizes {
  pipelineDepth?: 1 | 2;
  numSpeculativeTokens?: number;
  seed?: number;
}

function engine(
  meanOutputTokens: number,
  { pipelineDepth = 1, numSpeculativeTokens = 0, seed = 0 }: Sizes = {},
) {
  const sizes = { maxNumSeqs: 64, pipelineDepth, numSpeculativeTokens };
  const executor = new SimulatedExecutor({
    ...sizes,
    model: AT_ONCE,
    vocabulary: WORDS,
    eosTokenId: END,
    meanOutputTokens,
    seed,
  });
  const made = new Engine({
    executor,
    ...sizes,
    numBlocks: 1000,
    blockSize: 16,
    maxNumBatchedTokens: 2048,
    maxModelLen: 1000,
  });
  onTestFinished(() => made.dispose());
  return made;
}

interface Limits {
  maxTokens?: number;
  minTokens?: number;
  ignoreEos?: boolean;
}

/** The texts of requests `0` to `count - 1`, each with its reason. */
async function texts(over: Engine, count: number, limits: Limits = {}) {
  const sources = Array.from({ length: count }, (_, i) => ({
    id: `${i}`,
    prompt: [1, 2, 3],
    eosTokenId: END,
    maxTokens: 500,
    ...limits,
  }));
  const results = await over.generate(sources);
  return results.map((result) => {
    if ('error' in result) throw result.error;
    return { tokens: [...result.tokens], finishReason: result.finishReason };
  });
}

describe('a stand-in for a GPU', () => {
  it.each<Sizes>([
    { pipelineDepth: 1, numSpeculativeTokens: 0 },
    { pipelineDepth: 2, numSpeculativeTokens: 0 },
    { pipelineDepth: 1, numSpeculativeTokens: 3 },
  ])(
    'ends texts at random lengths with the mean that it was given: $pipelineDepth, $numSpeculativeTokens',
    async (options) => {
      const all = await texts(engine(20, options), 400);
      expect(all.every(({ finishReason }) => finishReason === 'stop')).toBe(true);
      const mean = all.reduce((sum, { tokens }) => sum + tokens.length, 0) / all.length;
      // The error of the mean of 400 lengths is 1.
      expect(mean).toBeGreaterThan(17);
      expect(mean).toBeLessThan(23);
      expect(new Set(all.map(({ tokens }) => tokens.length)).size).toBeGreaterThan(30);
    },
  );

  it('gives equal texts to equal ids and seeds', async () => {
    const [first, again, other] = await Promise.all([1, 1, 2].map((seed) => texts(engine(20, { seed }), 20)));
    expect(again).toEqual(first);
    expect(other).not.toEqual(first);
  });

  it('goes on behind an end that the request ignores', async () => {
    for (const { tokens, finishReason } of await texts(engine(20), 40, { ignoreEos: true, maxTokens: 200 })) {
      expect(finishReason).toBe('length');
      expect(tokens).toHaveLength(200);
      expect(tokens.filter((token) => token === END).length).toBeLessThan(40);
    }
  });

  it('goes on behind an end that comes too early for the request, and ends it later', async () => {
    const all = await texts(engine(20), 100, { minTokens: 50 });
    expect(Math.min(...all.map(({ tokens }) => tokens.length))).toBeGreaterThanOrEqual(50);
    expect(all.every(({ finishReason }) => finishReason === 'stop')).toBe(true);
    expect(new Set(all.map(({ tokens }) => tokens.length)).size).toBeGreaterThan(20);
  });
});
