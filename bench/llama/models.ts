import type { RandomModel } from '../../test/support/gguf/random-model.js';

const COMMON = { weights: 'Q8_0', numTokens: 4096, contextLength: 16_384 } as const;

/** Models of random weights in Q8_0: of 28, 110 and 500 million in shape, with a small vocabulary. The last one is shaped as Qwen2.5-0.5B. */
export const MODELS: Readonly<Record<string, RandomModel>> = {
  '28m': { ...COMMON, width: 512, layers: 8, heads: 8, kvHeads: 4, feedForward: 1408 },
  '110m': { ...COMMON, width: 768, layers: 12, heads: 12, kvHeads: 4, feedForward: 2048 },
  '500m': { ...COMMON, width: 896, layers: 24, heads: 14, kvHeads: 2, feedForward: 4864 },
};
