// The pool that fits, and the message if none does.
import { describe, expect, it } from 'vitest';
import { fittingPool, inWords, memoryNeeds } from '../../../../src/executors/llama-cpp/gguf/memory-needs.js';
import type { ModelCard } from '../../../../src/executors/llama-cpp/gguf/model-card.js';

const GIB = 2 ** 30;

/** Llama 3.2 3B in Q4_K, as its file says it. */
const CARD: ModelCard = {
  path: 'llama.gguf',
  name: 'Llama 3.2 3B Instruct',
  architecture: 'llama',
  contextLength: 131_072,
  numLayers: 28,
  width: 3072,
  feedForward: 8192,
  numTokens: 128_256,
  kvNumbers: { keys: 28 * 8 * 128, values: 28 * 8 * 128 },
  stateNumbers: 0,
  window: 0,
  weightBytes: 2 * GIB,
  generates: true,
  pooling: null,
  weightType: 'Q4_K',
  chatTemplate: null,
  sampling: {},
};
const SHAPE = { maxNumSeqs: 16, maxNumBatchedTokens: 512, blockSize: 16, cacheType: 'f16' as const };
const ANY = { ...SHAPE, maxModelLen: null, numBlocks: null };

describe('the memory of a model', () => {
  it('is its weights, its cache by the token, its states, and what a step computes with', () => {
    expect(memoryNeeds(CARD, SHAPE)).toMatchObject({
      weights: 2 * GIB,
      // 28 layers of 8 heads of 128 numbers, keys and values, of two bytes.
      perToken: 114_688,
      states: 0,
    });
    expect(memoryNeeds(CARD, { ...SHAPE, cacheType: 'q8_0' }).perToken).toBe(57_344 * (34 / 32));
    expect(memoryNeeds({ ...CARD, stateNumbers: 100 }, SHAPE).states).toBe(100 * 4 * 16);
  });
});

describe('the pool of a model', () => {
  it('has room for several texts of the context where there is memory, and no more', () => {
    expect(fittingPool(CARD, ANY, 64 * GIB)).toEqual({ numBlocks: 32_768 / 16 + 1, maxModelLen: 8192 });
    expect(fittingPool(CARD, { ...ANY, maxModelLen: 32_768 }, 64 * GIB)).toEqual({
      numBlocks: (4 * 32_768) / 16 + 1,
      maxModelLen: 32_768,
    });
    // A single request at once needs a single context.
    expect(fittingPool(CARD, { ...ANY, maxNumSeqs: 1 }, 64 * GIB).numBlocks).toBe(8192 / 16 + 1);
  });

  it('is smaller where there is less memory, and so is the context in the end', () => {
    const four = fittingPool(CARD, ANY, 4 * GIB);
    expect(four.maxModelLen).toBe(8192);
    expect(four.numBlocks).toBeGreaterThan(8192 / 16);
    expect(four.numBlocks).toBeLessThan(32_768 / 16);
    const less = fittingPool(CARD, ANY, 2.5 * GIB);
    expect(less.maxModelLen).toBeLessThan(8192);
    expect(less.numBlocks * 16).toBeGreaterThanOrEqual(less.maxModelLen);
    for (const free of [2.3, 2.5, 3, 4, 8]) {
      const { numBlocks } = fittingPool(CARD, ANY, free * GIB);
      const { weights, perToken, work } = memoryNeeds(CARD, SHAPE);
      expect(weights + perToken * numBlocks * 16 + work).toBeLessThanOrEqual(free * GIB);
    }
  });

  it('never has more context than the model was trained for', () => {
    const card = { ...CARD, contextLength: 2048 };
    expect(fittingPool(card, ANY, 64 * GIB).maxModelLen).toBe(2048);
    expect(() => fittingPool(card, { ...ANY, maxModelLen: 4096 }, 64 * GIB)).toThrow(
      'a context of 4096 tokens is more than the 2048 that the model llama.gguf was trained for',
    );
  });

  it('is as large as was asked for, if that fits', () => {
    expect(fittingPool(CARD, { ...ANY, numBlocks: 300 }, 4 * GIB)).toEqual({
      numBlocks: 300,
      maxModelLen: 299 * 16,
    });
  });

  it('needs no memory for tokens of a model of states alone', () => {
    const card = { ...CARD, kvNumbers: { keys: 0, values: 0 }, stateNumbers: 1000 };
    expect(fittingPool(card, ANY, 3 * GIB)).toEqual({ numBlocks: 32_768 / 16 + 1, maxModelLen: 8192 });
  });

  it('is refused where it does not fit, with what would', () => {
    const asked = { ...ANY, maxModelLen: 131_072 };
    const refused = () => fittingPool(CARD, asked, 8 * GIB);
    expect(refused).toThrow(expect.objectContaining({ code: 'ERR_BLOCKSTEP_NO_MEMORY' }));
    expect(refused).toThrow(
      /^the model llama\.gguf needs about 16\.2 GiB: 2\.0 GiB of weights, 14\.0 GiB of KV cache for 131088 tokens, .* to compute with; 8\.0 GiB are free\. A pool and a context of (\d+) tokens would fit/,
    );
    const [, fits] = /context of (\d+) tokens would/.exec(String(catching(refused))) as unknown as [
      string,
      string,
    ];
    const fitting = fittingPool(CARD, { ...ANY, maxModelLen: Number(fits) }, 8 * GIB);
    expect(fitting.maxModelLen).toBe(Number(fits));
    expect(() => fittingPool(CARD, { ...ANY, maxModelLen: Number(fits) + 32 }, 8 * GIB)).toThrow(/would fit/);
  });

  it('is refused where not even the weights fit', () => {
    expect(() => fittingPool(CARD, ANY, 1.5 * GIB)).toThrow(/1\.5 GiB are free\. No context would fit/);
  });
});

describe('bytes', () => {
  it.each([
    [0, '0.0 MiB'],
    [5 * 2 ** 20, '5.0 MiB'],
    [500 * 2 ** 20, '500 MiB'],
    [1.5 * GIB, '1.5 GiB'],
  ])('%d are %s', (bytes, words) => {
    expect(inWords(bytes)).toBe(words);
  });
});

function catching(call: () => unknown): unknown {
  try {
    return call();
  } catch (error) {
    return error;
  }
}
