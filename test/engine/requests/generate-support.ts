// Helpers for the suites of `generate`.
import type { GenerateFailure } from '../../../src/engine/generate-options.js';
import type { BlockstepError, GenerateResult } from '../../../src/index.js';
import type { EngineBench } from '../../support/engine-bench.js';

export const turn = () => new Promise((resolve) => setImmediate(resolve));

/** When the engine rests, at the latest after so many turns. */
export async function rested({ engine }: EngineBench): Promise<void> {
  for (let i = 0; i < 100 && engine.stats().stepsInFlight + engine.stats().abortsQueued > 0; i++)
    await turn();
  await turn();
}

/** The tokens that the executor of the benches answers to a prompt of so many tokens. */
export const said = (length: number, maxTokens: number) =>
  Array.from({ length: maxTokens }, (_, i) => 100 * (length + i));

export const textOf = (result: GenerateResult): number[] | string =>
  result.finishReason === 'error' ? String((result.error as Error).message) : [...result.tokens];

export const codeOf = (result: GenerateResult): string =>
  ((result as GenerateFailure).error as BlockstepError).code;
