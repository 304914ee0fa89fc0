import { statSync, truncateSync } from 'node:fs';
import type { EmbeddedFile } from './embedded-file.js';

/** Messages of LMDB about a file that is damaged, or is none of its own. */
const DAMAGE =
  /MDB_(INVALID|CORRUPTED|PAGE_NOTFOUND|VERSION_MISMATCH|PANIC|BAD_TXN|INCOMPATIBLE|CURSOR_FULL)/;
const COUNTS = 'a tree has another number of keys than it says';

/**
 * Reads every page of a file's trees, and writes. A file that is damaged may end the process instead: LMDB trusts its file.
 * @throws if the file is damaged; see `isDamage`
 */
export function checkFile(file: EmbeddedFile): void {
  // Nobody else writes meanwhile: who does makes the file longer, and what he wrote would be cut off.
  file.root.transactionSync(() => restoreLength(file));
  for (const database of [file.values, file.uses, file.order, file.facts]) {
    let count = 0;
    for (const key of database.getKeys({})) count += key.length > 0 ? 1 : 0;
    if (count !== (database.getStats() as { entryCount: number }).entryCount) throw new Error(COUNTS);
  }
  // Writing reads the list of free pages.
  file.facts.transactionSync(() => file.facts.putSync(Buffer.from('checked'), Buffer.from([1])));
}

/** Whether an error of opening or checking a file means that the file is damaged, or is no file of LMDB. */
export function isDamage(error: unknown): boolean {
  const message = String((error as Error).message);
  return message === COUNTS || DAMAGE.test(message);
}

/**
 * Gives a file that was cut off its length back: reading behind the end of a file ends a process. The lost pages are zeros then: the walk
 * through the trees finds those of trees, and checksums find those of values.
 */
function restoreLength({ path, root }: EmbeddedFile): void {
  const { pageSize, lastPageNumber } = root.getStats() as { pageSize: number; lastPageNumber: number };
  const needed = pageSize * (lastPageNumber + 1);
  if (statSync(path).size < needed) truncateSync(path, needed);
}
