// Steps with a store: its cases of `steps.ts`.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { StoreConnector, type StoreOptions, StoreWorker } from '../../../src/connectors/store/index.js';
import { BlockArena } from '../../../src/transfer.js';
import { BLOCK_SIZE } from '../../workloads/workloads.js';
import { SIZE, type Sides } from '../support/decodes.js';
import { plainCase, type StepCase } from '../support/step-case.js';

const BYTES_PER_BLOCK = 4096;
/** Beyond the end of the run: no try to reach the server falls into it. */
const LONG_PAUSES = { pauseMs: 600_000, maxPauseMs: 600_000 };

/** The sides of a connector with an embedded store. @param isAtWork whether every block of the decodes has to be stored */
export function embeddedSides(numBlocks: number, isAtWork: boolean): Sides {
  const folder = mkdtempSync(join(tmpdir(), 'blockstep-bench-store-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  const { connector, worker, ...sides } = sidesOf(numBlocks, { path: join(folder, 'kv') });
  const check = (numSteps: number): void => {
    const { stagingBlocksInUse, store } = worker.stats();
    const { skippedBlocks, pinnedBlocks } = connector.stats();
    // The thread already has the blocks that it must still write. If the thread cannot keep up,
    // further blocks wait for a place.
    const stored = store.stored + stagingBlocksInUse + pinnedBlocks;
    const wanted = ((isAtWork ? SIZE : 1) * numSteps) / BLOCK_SIZE;
    if (stored < 0.5 * wanted || skippedBlocks > 0)
      throw new Error(`${stored} of ${wanted} blocks were stored, ${skippedBlocks} skipped`);
    if (!isAtWork && stored > 2 * wanted) throw new Error(`${stored} blocks were stored, which is not idle`);
  };
  return { ...sides, connector, check };
}

/** The sides of a connector with a server that is not there: nobody listens at the port. */
function downSides(numBlocks: number): Sides {
  const { worker, ...sides } = sidesOf(numBlocks, { url: 'redis://127.0.0.1:1' }, LONG_PAUSES);
  const check = (): void => {
    const { stored } = worker.stats().store;
    if (stored > 0) throw new Error(`${stored} blocks were stored`);
  };
  return { ...sides, check };
}

/** @param pauses how long a store that is down is left alone */
function sidesOf(numBlocks: number, store: StoreOptions, pauses = {}) {
  const format = { model: 'bench', layout: 'none', dtype: 'none', bytesPerBlock: BYTES_PER_BLOCK };
  const kv = BlockArena.allocate({ numBlocks, bytesPerBlock: BYTES_PER_BLOCK });
  const connector = new StoreConnector({ store, format, maxPinnedBlocks: 4096, ...pauses });
  const worker = new StoreWorker({ memory: { kv }, store, ...pauses });
  return { connector, worker, workers: [worker] };
}

export const STORE_STEPS: readonly StepCase[] = [
  plainCase('store, its server down', 'alike', downSides),
  plainCase('store, idle', 'alike', (numBlocks) => embeddedSides(numBlocks, false)),
  plainCase('store, at work', 'spread', (numBlocks) => embeddedSides(numBlocks, true), true),
];
