import { closeSync, mkdirSync, openSync, statSync, truncateSync } from 'node:fs';
import { dirname } from 'node:path';
import { type EmbeddedFile, lockOf, openFile } from './embedded-file.js';
import { CheckEnd } from './file-check.js';

/** Messages of LMDB about a file that is damaged, or is none of its own. */
const DAMAGE =
  /MDB_(INVALID|CORRUPTED|PAGE_NOTFOUND|VERSION_MISMATCH|PANIC|BAD_TXN|INCOMPATIBLE|CURSOR_FULL)/;

/**
 * What the process does that checks a file of LMDB before an engine opens it; see `checkFile`. Its exit status says how
 * it went, and so does a signal.
 */
async function check(path: string, mapBytes: number): Promise<number> {
  try {
    makeFiles(path);
    const file = await openFile(path, mapBytes);
    // Nobody else writes meanwhile: who does makes the file longer, and what he wrote would be cut off.
    file.root.transactionSync(() => restoreLength(path, file));
    for (const database of [file.values, file.uses, file.order, file.facts]) {
      let count = 0;
      for (const key of database.getKeys({})) count += key.length > 0 ? 1 : 0;
      if (count !== (database.getStats() as { entryCount: number }).entryCount) return CheckEnd.damaged;
    }
    // Writing reads the list of free pages.
    file.facts.transactionSync(() => file.facts.putSync(Buffer.from('checked'), Buffer.from([1])));
    await file.root.close();
    return CheckEnd.good;
  } catch (error) {
    const text = String((error as Error).message);
    process.stderr.write(text);
    return DAMAGE.test(text) ? CheckEnd.damaged : CheckEnd.unknown;
  }
}

/**
 * Makes what is not there. What the file system refuses is an error here, by its name; where LMDB is refused it the process may end.
 * @throws an error of the file system
 */
function makeFiles(path: string): void {
  mkdirSync(dirname(path), { recursive: true });
  for (const file of [path, lockOf(path)]) closeSync(openSync(file, 'a+'));
}

/**
 * Gives a file that was cut off its length back: reading behind the end of a file ends a process. The lost pages are zeros then: the walk
 * through the trees finds those of trees, and checksums find those of values.
 */
function restoreLength(path: string, { root }: EmbeddedFile): void {
  const { pageSize, lastPageNumber } = root.getStats() as { pageSize: number; lastPageNumber: number };
  const needed = pageSize * (lastPageNumber + 1);
  if (statSync(path).size < needed) truncateSync(path, needed);
}

process.exit(await check(process.argv[2], Number(process.argv[3])));
