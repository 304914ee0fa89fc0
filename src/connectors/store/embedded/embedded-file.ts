import { closeSync, mkdirSync, openSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Database, RootDatabase } from 'lmdb';
import { optionalPackage } from '../../../base/packages/optional-package.js';
import { LMDB_VERSIONS } from '../stores/store-options.js';

/** The databases of one file. All keys are bytes. */
export interface EmbeddedFile {
  readonly path: string;
  readonly root: RootDatabase<Uint8Array, Uint8Array>;
  /** Sealed values by key. */
  readonly values: Database<Uint8Array, Uint8Array>;
  /** The last use and the size of each value, by key. */
  readonly uses: Database<Uint8Array, Uint8Array>;
  /** Last use and key of each value, the longest unused first. */
  readonly order: Database<Uint8Array, Uint8Array>;
  /** Facts about the file, by name. */
  readonly facts: Database<Uint8Array, Uint8Array>;
}

/** Named databases of the file. The version is that of this layout: another layout has other names. */
const NAMES = { values: 'values.1', uses: 'uses.1', order: 'order.1', facts: 'facts.1' } as const;

/**
 * Opens a file, or makes it.
 * @param mapBytes most bytes that the file may have
 * @throws an error of the file system, by its name; or what LMDB throws, unless that ends the process: lmdb 3.5.6 frees memory twice
 * when an opening fails
 */
export async function openFile(path: string, mapBytes: number): Promise<EmbeddedFile> {
  const lmdb = await optionalPackage<typeof import('lmdb')>(
    'lmdb',
    LMDB_VERSIONS,
    'the embedded block store',
  );
  // What the file system refuses has its own error here, and is no end of the process.
  mkdirSync(dirname(path), { recursive: true });
  for (const file of [path, lockOf(path)]) closeSync(openSync(file, 'a+'));
  const binary = { encoding: 'binary', keyEncoding: 'binary' } as const;
  const root = lmdb.open<Uint8Array, Uint8Array>({ path, noSubdir: true, mapSize: mapBytes, ...binary });
  const open = (name: string): Database<Uint8Array, Uint8Array> => root.openDB(name, binary);
  try {
    const { values, uses, order, facts } = NAMES;
    return {
      path,
      root,
      values: open(values),
      uses: open(uses),
      order: open(order),
      facts: open(facts),
    };
  } catch (error) {
    await root.close();
    throw error;
  }
}

/** Removes a file, with the lock file of LMDB beside it. Processes that have it open go on with what they have. */
export function removeFile(path: string): void {
  rmSync(path, { force: true });
  rmSync(lockOf(path), { force: true });
}

/** The file that LMDB keeps beside its data: locks of writers, and places of readers. */
function lockOf(path: string): string {
  return `${path}-lock`;
}
