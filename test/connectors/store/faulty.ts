// A store with every fault, for the conformance suite.
import { StoreConnector, StoreWorker } from '../../../src/connectors/store/index.js';
import type { ConnectorUnderTest, ConnectorWorld } from '../../../src/testing/index.js';
import { fenceAll } from '../../testing/fence-all.js';
import { FaultyServer } from './support/faulty-server.js';

/**
 * A connector that reports work for as long as something is on its way to the store, once there are
 * no faults.
 */
class WatchedConnector extends StoreConnector {
  isOnItsWay = (): boolean => false;

  override hasPendingWork(): boolean {
    return super.hasPendingWork() || this.isOnItsWay();
  }
}

/** A store of one's own that speaks to a faulty server, as the conformance suite makes it: the engines of a run share it. */
export function makeFaulty(world: ConnectorWorld): ConnectorUnderTest {
  const { memories, numRanks, makeLane, shared, now, seed } = world;
  const server = (shared.get('server') as FaultyServer | undefined) ?? new FaultyServer(seed, now);
  shared.set('server', server);
  const store = { open: () => server.open() };
  const { bytesPerBlock } = memories[0].kv;
  // Sometimes so few that loads wait for them.
  const stagingBytes = (2 + 3 * (seed % 3)) * bytesPerBlock;
  const times = { timeoutMs: 60, pauseMs: 4, maxPauseMs: 40, now };
  const format = { model: 'test', dtype: 'i32', layout: 'reference', bytesPerBlock };
  const connector = new WatchedConnector({
    store,
    numRanks,
    format,
    lookupBudgetMs: 25,
    storeEvery: 2,
    ...times,
  });
  const workers = memories.map(
    (memory, rank) => new StoreWorker({ memory, store, rank, makeLane, stagingBytes, ...times }),
  );
  const inUse = (): number => workers.reduce((sum, worker) => sum + worker.stats().stagingBlocksInUse, 0);
  let isCalm = false;
  connector.isOnItsWay = () => isCalm && inUse() > 0;
  return {
    connector,
    workers,
    losesKv: true,
    fence: () => fenceAll(workers),
    tick: () => server.tick(),
    calm: () => {
      isCalm = true;
      server.calm();
    },
    // Values that a dead engine has asked for arrive in memory that nobody reads.
    kill: () => undefined,
    leftovers: () => {
      const { openLookups } = connector.stats();
      const left = workers.flatMap((worker, rank) => leftIn(rank, worker.stats()));
      return openLookups === 0 ? left : [...left, `${openLookups} lookups`];
    },
  };
}

function leftIn(rank: number, { stagingBlocksInUse, loads }: ReturnType<StoreWorker['stats']>): string[] {
  const counts = { 'places of the staging arena': stagingBlocksInUse, loads };
  return Object.entries(counts).flatMap(([what, count]) =>
    count === 0 ? [] : [`${count} ${what} of rank ${rank}`],
  );
}
