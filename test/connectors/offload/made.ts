// An offload for the conformance suite.
import { type LanedBlocks, type LanedMemory, offload } from '../../../src/connectors/offload/index.js';
import type { ConnectorUnderTest, ConnectorWorld } from '../../../src/testing/index.js';
import { fenceAll } from '../../testing/fence-all.js';

/** An offload, as the conformance suite makes it: with a tier so small that it evicts. */
export function makeOffload({ memories, makeLane }: ConnectorWorld): ConnectorUnderTest {
  const made = offload({ memory: memories, hostBlocks: 60, makeLane });
  return { ...made, fence: () => fenceAll(made.workers) };
}

/** The same over KV memory that makes its own lanes, as that of llama.cpp does. */
export function makeOffloadOfLanes({ memories, makeLane }: ConnectorWorld): ConnectorUnderTest {
  const memory = memories.map(({ kv, adopt }, rank): LanedMemory => {
    const { numBlocks, bytesPerBlock } = kv;
    const blocks: LanedBlocks = {
      ...{ numBlocks, bytesPerBlock },
      laneTo: (queue, target) => makeLane(queue, kv, target),
      laneFrom: (queue, source) => makeLane(queue, source, kv),
    };
    return { kv: blocks, ...(adopt !== undefined && { adopt: adopt.bind(memories[rank]) }) };
  });
  const made = offload({ memory, hostBlocks: 60 });
  return { ...made, fence: () => fenceAll(made.workers) };
}
