// The three stages that all processes know.
import { ReferenceExecutor } from '../../../src/index.js';
import type { StageOptions } from '../../../src/pipeline/index.js';

export const STAGES = ['thinker', 'talker', 'wave'] as const;
export type StageName = (typeof STAGES)[number];

const SIZES = { numBlocks: 256, blockSize: 8, maxNumSeqs: 8, maxNumBatchedTokens: 256, maxModelLen: 256 };

/** A stage of the pipeline that all processes know. Its texts depend on the prompt alone. @param latencyMs of a step */
export function stageOf(name: StageName, latencyMs: number): StageOptions {
  const executor = new ReferenceExecutor({ ...SIZES, seed: STAGES.indexOf(name), latencyMs });
  const engine = { ...SIZES, executor, hashSeed: 7, strict: true };
  if (name === 'wave') return { name, kind: 'generation', engine };
  const defaults = name === 'thinker' ? {} : { maxTokens: 5 };
  return { name, engine, defaults, chunkTokens: 4, maxChunksAhead: 2 };
}
