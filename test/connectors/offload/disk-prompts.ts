// The prompts of engines over one folder that are killed.
import type { KvGroupOptions } from '../../../src/index.js';
import { unpagedText, wordy } from '../../support/unpaged-text.js';
import { OffloadBench, SEED } from './support.js';

/** The prompts that several processes serve, one after the other, over one folder. */

const GROUPS: readonly KvGroupOptions[] = [
  { type: 'full', blockSize: 16 },
  { type: 'sliding', blockSize: 4, window: 11 },
];
const MAX_TOKENS = 6;
export const PROMPTS = Array.from({ length: 12 }, (_, i) => wordy(34 + i, 1 + (i % 5)));
const TEXTS = PROMPTS.map((prompt) => unpagedText(prompt, MAX_TOKENS, { seed: SEED }));

/** An engine of two ranks over a folder. */
export function disk(
  path: string,
  { model, hostBlocks }: { readonly model: string; readonly hostBlocks: number },
): OffloadBench {
  return new OffloadBench({
    numRanks: 2,
    engine: { kvGroups: [...GROUPS], numBlocks: 200 },
    // Nothing of the disk is too small or too slow for them.
    offload: { hostBlocks, disk: { path, model, budgetMs: 1e6, maxBytes: 2 ** 26 } },
  });
}

/** Serves a prompt. @throws if its text is not that of an unlimited pool, or if something is left behind */
export async function serveOver(bench: OffloadBench, prompt: Int32Array): Promise<void> {
  const { tokens } = await bench.serve({ prompt, maxTokens: MAX_TOKENS });
  const wanted = TEXTS[PROMPTS.indexOf(prompt)] as readonly number[];
  if (`${[...tokens]}` !== `${wanted}`) throw new Error(`text ${[...tokens]}, expected ${wanted}`);
  await bench.restDisk();
  const wrong = [...bench.executor.faults, ...bench.leftovers()];
  if (wrong.length > 0) throw new Error(JSON.stringify(wrong));
}
