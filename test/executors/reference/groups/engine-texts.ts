// Checks texts through an engine with KV cache groups.
import { expect, it } from 'vitest';
import { Engine, type KvGroupOptions, ReferenceExecutor } from '../../../../src/index.js';
import { Random } from '../../../support/engine-bench.js';
import { unpagedText, wordy } from '../../../support/unpaged-text.js';
import type { Where } from '../engine-texts.js';

const FULL = { type: 'full', blockSize: 4 } as const;
const CONFIGS: Record<string, readonly KvGroupOptions[]> = {
  'full and two windows': [
    FULL,
    { type: 'sliding', blockSize: 2, window: 6 },
    { type: 'sliding', blockSize: 8, window: 9 },
  ],
  'chunks and sinks': [
    { type: 'sink', blockSize: 4, sinkTokens: 8 },
    { type: 'chunked', blockSize: 4, chunk: 12 },
  ],
  'states, align': [
    { type: 'mamba', blockSize: 4, mode: 'align' },
    FULL,
    { type: 'sliding', blockSize: 4, window: 5 },
  ],
  'states, all': [FULL, { type: 'mamba', blockSize: 4, mode: 'all' }],
  'states, none': [{ type: 'mamba', mode: 'none' }, FULL],
};

/** Forty clients over a pool that is too small for them, some of whom leave early. */
export function itGivesUnpagedTexts(where: Where): void {
  it.each(
    Object.entries(CONFIGS).flatMap(([name, kvGroups]) =>
      ([1, 2] as const).map((depth) => ({ name, kvGroups, depth })),
    ),
  )('texts are those of an unpaged computation: $name, depth $depth', async ({ kvGroups, depth }) => {
    const random = new Random(depth);
    const hasCache = kvGroups.every(({ mode }) => mode !== 'none');
    const sizes = {
      numBlocks: kvGroups.length === 3 ? 56 : 28,
      blockSize: 4,
      maxNumSeqs: 6,
      maxNumBatchedTokens: 24,
      maxModelLen: 64,
      pipelineDepth: depth,
      enablePrefixCaching: hasCache,
      kvGroups,
    };
    const executor = new ReferenceExecutor({ ...sizes, seed: 5, ...where });
    const engine = new Engine({ hashSeed: 7, executor, ...sizes });
    void engine.run();
    const clients = Array.from({ length: 40 }, async () => {
      const prompt = wordy(6 + random.below(30), random.below(2));
      const maxTokens = 2 + random.below(26);
      const leavesAfter = random.chance(25) ? 1 + random.below(6) : Number.POSITIVE_INFINITY;
      const stream = engine.submit({ prompt, maxTokens });
      const read: number[] = [];
      for await (const { tokens } of stream) {
        read.push(...tokens);
        if (read.length > leavesAfter) break;
      }
      return { prompt, maxTokens, read, finishReason: (await stream.result()).finishReason };
    });
    const reasons = new Set<string>();
    for (const { prompt, maxTokens, read, finishReason } of await Promise.all(clients)) {
      const count = finishReason === 'abort' ? read.length : maxTokens;
      expect(read).toEqual(unpagedText(prompt, count, { seed: 5 }));
      reasons.add(finishReason);
    }
    expect([...reasons].sort()).toEqual(['abort', 'length']);
    const { numPreemptions, prefixCacheHits } = engine.stats().scheduler;
    expect(numPreemptions).toBeGreaterThan(0);
    if (hasCache) expect(prefixCacheHits).toBeGreaterThan(0);
    expect(executor.faults).toEqual([]);
    await engine.shutdown();
  });
}
