// The smallest executor is the program that docs/executors.md shows, and its texts are right.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ToyExecutor } from '../../examples/executor.js';
import { Engine } from '../../src/index.js';
import { Random } from '../support/engine-bench.js';

/** The same model without blocks. */
function unpaged(prompt: Int32Array, count: number): number[] {
  const text = [...prompt];
  for (let i = 0; i < count; i++) text.push(text.reduce((sum, token) => (31 * sum + token) % 32_000, 0));
  return text.slice(prompt.length);
}

describe('the smallest executor', () => {
  it('is the one that docs/executors.md shows', () => {
    const code = (path: string): string => {
      const text = readFileSync(new URL(path, import.meta.url), 'utf8');
      const from = text.indexOf('export class ToyExecutor');
      return text.slice(from, text.indexOf('\n}\n', from));
    };
    expect(code('../../docs/executors.md')).toBe(code('../../examples/executor.ts'));
  });

  it.each([1, 2, 3])('seed %i: gives every text, with shared prefixes and preemption', async (seed) => {
    const random = new Random(seed);
    const sizes = { numBlocks: 20, blockSize: 4 };
    const engine = new Engine({
      ...sizes,
      maxModelLen: 64,
      maxNumSeqs: 6,
      maxNumBatchedTokens: 24,
      executor: new ToyExecutor(sizes),
    });
    const asked = Array.from({ length: 20 }, () => {
      const prompt = Int32Array.from({ length: 1 + random.below(30) }, (_, i) => i + 100 * random.below(2));
      const maxTokens = 1 + random.below(16);
      return { prompt, maxTokens, stream: engine.submit({ prompt, maxTokens }) };
    });
    while (engine.hasWork()) engine.step();
    expect(engine.stats().scheduler.numPreemptions).toBeGreaterThan(0);
    for (const { prompt, maxTokens, stream } of asked)
      expect([...(await stream.result()).tokens]).toEqual(unpaged(prompt, maxTokens));
    engine.dispose();
  });
});
