// The small example, as the suite makes it.
import * as example from '../../examples/memo.js';
import type { ConnectorUnderTest, ConnectorWorld } from '../../src/testing/index.js';
import { fenceAll } from './fence-all.js';

/** The exports of a file with a memo. */
export type MemoModule = Pick<typeof example, 'Memo' | 'MemoWorker'>;

/** The small example, or another one like it, as the suite makes it. */
export function makeMemo(
  { memories, makeLane }: ConnectorWorld,
  { Memo, MemoWorker }: MemoModule = example,
): ConnectorUnderTest {
  const size = 300;
  const workers = memories.map((memory) => new MemoWorker(memory, size, makeLane));
  return { connector: new Memo(size), workers, fence: () => fenceAll(workers) };
}
