// Stores for the conformance suite.
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { StoreConnector, StoreWorker } from '../../../src/connectors/store/index.js';
import type { ConnectorUnderTest, ConnectorWorld } from '../../../src/testing/index.js';
import { threadsEnded } from '../../support/threads.js';
import { fenceAll } from '../../testing/fence-all.js';

/** A store in a slot file, as the conformance suite makes it: the engines of a run share it. */
export function makeStore({ memories, numRanks, makeLane, shared }: ConnectorWorld): ConnectorUnderTest {
  const folder =
    (shared.get('folder') as string | undefined) ?? mkdtempSync(join(tmpdir(), 'blockstep-store-'));
  shared.set('folder', folder);
  const store = { path: join(folder, 'kv.slots'), maxBytes: 2 ** 24 };
  // Its thread lives by the real clock, and so do its budgets.
  const times = { timeoutMs: 120_000, pauseMs: 1, maxPauseMs: 5 };
  const workers = memories.map(
    (memory, rank) => new StoreWorker({ memory, store, rank, makeLane, ...times }),
  );
  return {
    connector: new StoreConnector({
      store,
      numRanks,
      format: {
        model: 'test',
        dtype: 'i32',
        layout: 'reference',
        bytesPerBlock: memories[0].kv.bytesPerBlock,
      },
      lookupBudgetMs: 1000,
      ...times,
    }),
    workers,
    fence: () => fenceAll(workers),
    dispose: async () => {
      await threadsEnded();
      await rm(folder, { recursive: true, force: true, maxRetries: 50, retryDelay: 50 });
    },
  };
}
