// Steps with an offload: its cases of `steps.ts`.
import { offload } from '../../../src/connectors/offload/index.js';
import { BlockArena } from '../../../src/transfer.js';
import { BLOCK_SIZE } from '../../workloads/workloads.js';
import { SIZE, type Sides } from '../support/decodes.js';
import { plainCase, type StepCase } from '../support/step-case.js';

const BYTES_PER_BLOCK = 64;

/** The sides of an offload. @param isAtWork whether every block of the decodes has to be stored */
export function offloadSides(numBlocks: number, isAtWork: boolean): Sides {
  const kv = BlockArena.allocate({ numBlocks, bytesPerBlock: BYTES_PER_BLOCK });
  const { connector, workers } = offload({
    memory: { kv },
    hostBlocks: 2 * numBlocks,
    maxPinnedBlocks: numBlocks,
  });
  const check = (numSteps: number): void => {
    const { stores, blocks } = connector.stats().host;
    const wanted = ((isAtWork ? SIZE : 1) * numSteps) / BLOCK_SIZE;
    if (blocks < 0.9 * wanted || stores.skippedBlocks > 0)
      throw new Error(`only ${blocks} of ${wanted} blocks were stored`);
    if (!isAtWork && blocks > 2 * wanted) throw new Error(`${blocks} blocks were stored, which is not idle`);
  };
  return { connector, workers, check };
}

export const OFFLOAD_STEPS: readonly StepCase[] = [
  plainCase('offload, idle', 'alike', (numBlocks) => offloadSides(numBlocks, false)),
  plainCase('offload, at work', 'spread', (numBlocks) => offloadSides(numBlocks, true)),
];
