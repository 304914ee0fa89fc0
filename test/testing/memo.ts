import { Memo, MemoWorker } from '../../examples/memo.js';
import type { ConnectorUnderTest, ConnectorWorld } from '../../src/testing/index.js';

/** The small example, as the suite makes it. */
export function makeMemo({ memories, makeLane }: ConnectorWorld): ConnectorUnderTest {
  const size = 300;
  return {
    connector: new Memo(size),
    workers: memories.map((memory) => new MemoWorker(memory, size, makeLane)),
  };
}
