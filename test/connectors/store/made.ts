import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { StoreConnector, StoreWorker } from '../../../src/connectors/store/index.js';
import type { ConnectorUnderTest, ConnectorWorld } from '../../../src/testing/index.js';

/** A store in a file of LMDB, as the conformance suite makes it: the engines of a run share it. */
export function makeStore({ memories, numRanks, makeLane, shared }: ConnectorWorld): ConnectorUnderTest {
  const folder =
    (shared.get('folder') as string | undefined) ?? mkdtempSync(join(tmpdir(), 'blockstep-store-'));
  shared.set('folder', folder);
  const store = { path: join(folder, 'kv.lmdb'), maxBytes: 2 ** 24 };
  // Its thread lives by the real clock, and so do its budgets.
  const times = { timeoutMs: 120_000, pauseMs: 1, maxPauseMs: 5 };
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
    workers: memories.map((memory, rank) => new StoreWorker({ memory, store, rank, makeLane, ...times })),
    // Its lanes are all that could touch KV memory, and these the suite ends itself.
    fence: () => {},
    // Threads that are closing the file may still write beside it.
    dispose: () => rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 }),
  };
}
