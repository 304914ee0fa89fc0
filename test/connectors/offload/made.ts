// An offload for the conformance suite.
import { offload } from '../../../src/connectors/offload/index.js';
import type { ConnectorUnderTest, ConnectorWorld } from '../../../src/testing/index.js';
import { fenceAll } from '../../testing/fence-all.js';

/** An offload, as the conformance suite makes it: with a tier so small that it evicts. */
export function makeOffload({ memories, makeLane }: ConnectorWorld): ConnectorUnderTest {
  const made = offload({ memory: memories, hostBlocks: 60, makeLane });
  return { ...made, fence: () => fenceAll(made.workers) };
}
