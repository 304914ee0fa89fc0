import { offload } from '../../../src/connectors/offload/index.js';
import type { ConnectorUnderTest, ConnectorWorld } from '../../../src/testing/index.js';

/** An offload, as the conformance suite makes it: with a tier so small that it evicts. */
export function makeOffload({ memories, makeLane }: ConnectorWorld): ConnectorUnderTest {
  // Its lanes are all that could touch memory, and these the suite ends itself.
  return { ...offload({ memory: memories, hostBlocks: 60, makeLane }), fence: () => {} };
}
