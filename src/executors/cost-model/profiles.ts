import type { CostModel } from './cost-model.js';
import { DEFAULT_COST_MODEL } from './cost-model.js';

/** A model on GPUs. It stands in for a server of this model. */
export interface Profile {
  /** The model and the GPUs, in words. */
  readonly what: string;
  readonly model: Readonly<CostModel>;
  /** Blocks of 16 tokens that fit beside the weights in nine tenths of the memory of the GPUs. */
  readonly numBlocks: number;
}

/**
 * Models on GPUs: assumptions, not measurements. The sizes of the models are the published sizes,
 * in 16 bits. The GPUs reach 80 % of the bandwidth, and half of the arithmetic, of their data
 * sheets. A token takes two operations for each parameter.
 */
export const PROFILES: Readonly<Record<string, Profile>> = {
  // 2 x 32 layers x 8 KV heads x 128 x 2 bytes a token; 80 GB, 3.35 TB/s, 989 TFLOPS.
  'llama-3.1-8b-h100': {
    what: 'Llama 3.1 8B on one H100 SXM',
    model: DEFAULT_COST_MODEL,
    numBlocks: 26_600,
  },
  // 80 GB, 2.04 TB/s, 312 TFLOPS.
  'llama-3.1-8b-a100': {
    what: 'Llama 3.1 8B on one A100 SXM of 80 GB',
    model: { ...DEFAULT_COST_MODEL, prefillTokensPerSecond: 9_700, memoryBytesPerSecond: 1.63e12 },
    numBlocks: 26_600,
  },
  // 2 x 80 layers x 8 KV heads x 128 x 2 bytes a token; four times the GPU above, by tensor
  // parallelism without losses.
  'llama-3.1-70b-4xh100': {
    what: 'Llama 3.1 70B on four H100 SXM',
    model: {
      stepOverheadMs: 1.5,
      prefillTokensPerSecond: 14_000,
      weightBytes: 141.1e9,
      kvBytesPerToken: 327_680,
      memoryBytesPerSecond: 10.7e12,
    },
    numBlocks: 28_000,
  },
  // 2 x 28 layers x 4 KV heads x 128 x 2 bytes a token; 24 GB, 300 GB/s, 121 TFLOPS.
  'qwen2.5-7b-l4': {
    what: 'Qwen2.5 7B on one L4',
    model: {
      stepOverheadMs: 1,
      prefillTokensPerSecond: 3_980,
      weightBytes: 15.2e9,
      kvBytesPerToken: 57_344,
      memoryBytesPerSecond: 0.24e12,
    },
    numBlocks: 6_900,
  },
};
