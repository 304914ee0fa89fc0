// The example of a tier in host memory, as the suite makes it.
import * as example from '../../examples/host-tier.js';
import type { ConnectorUnderTest, ConnectorWorld } from '../../src/testing/index.js';
import { fenceAll } from './fence-all.js';

/** The exports of a file with a host tier. */
export type HostTierModule = Pick<typeof example, 'HostTier' | 'HostTierWorker'>;

/** The example of a host tier, or another one like it, as the suite makes it. */
export function makeHostTier(
  { memories, numRanks, makeLane }: ConnectorWorld,
  { HostTier, HostTierWorker }: HostTierModule = example,
): ConnectorUnderTest {
  const places = 300;
  const workers = memories.map((memory) => {
    const arrived = (handle: number, blocks: Int32Array): void => memory.adopt?.(handle, blocks);
    return new HostTierWorker({ kv: memory.kv, places, makeLane, arrived });
  });
  return { connector: new HostTier({ places, numRanks }), workers, fence: () => fenceAll(workers) };
}
