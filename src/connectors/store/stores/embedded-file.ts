import { accessSync, closeSync, constants, openSync, rmSync } from 'node:fs';
import type { Database, RootDatabase } from 'lmdb';
import { optionalPackage } from '../../../base/packages/optional-package.js';
import { LMDB_VERSIONS } from './store-options.js';

/** The databases of one file. All keys are bytes. */
export interface EmbeddedFile {
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

/** File descriptors that LMDB needs while it opens a file: the data, twice, the lock, and one of the system. */
const DESCRIPTORS = 4;

/** Imports LMDB. @throws ERR_BLOCKSTEP_NO_PACKAGE if it is not installed, or cannot be loaded */
export function loadLmdb(): Promise<typeof import('lmdb')> {
  return optionalPackage('lmdb', LMDB_VERSIONS, 'the embedded block store');
}

/**
 * Opens a file, or makes it. Only for a process that may crash: an opening that fails in LMDB frees memory twice (lmdb 3.5.6).
 * @param mapBytes most bytes that the file may have
 * @throws what LMDB throws: the file cannot be opened, is of another kind, or is damaged
 */
export async function openFile(path: string, mapBytes: number): Promise<EmbeddedFile> {
  const lmdb = await loadLmdb();
  return openWith(lmdb, path, mapBytes);
}

/**
 * Opens a file that `checkFile` has found good. Whatever can be known to make LMDB fail is refused before LMDB is called, since its
 * failure may end the process.
 * @param mapBytes most bytes that the file may have
 * @throws an error of the file system: file or lock is gone or locked up, or there is no descriptor left
 */
export async function openCheckedFile(path: string, mapBytes: number): Promise<EmbeddedFile> {
  const lmdb = await loadLmdb();
  // Nothing waits from here on, so that as little as possible can happen in between.
  const held: number[] = [];
  try {
    for (let i = 0; i < DESCRIPTORS; i++) held.push(openSync(path, 'r+'));
    // The lock file is not opened: closing it would give up the locks of this process on it.
    accessSync(lockOf(path), constants.R_OK | constants.W_OK);
  } finally {
    for (const descriptor of held) closeSync(descriptor);
  }
  return openWith(lmdb, path, mapBytes);
}

async function openWith(lmdb: typeof import('lmdb'), path: string, mapBytes: number): Promise<EmbeddedFile> {
  const binary = { encoding: 'binary', keyEncoding: 'binary' } as const;
  const root = lmdb.open<Uint8Array, Uint8Array>({ path, noSubdir: true, mapSize: mapBytes, ...binary });
  const open = (name: string): Database<Uint8Array, Uint8Array> => root.openDB(name, binary);
  try {
    const { values, uses, order, facts } = NAMES;
    return { root, values: open(values), uses: open(uses), order: open(order), facts: open(facts) };
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
export function lockOf(path: string): string {
  return `${path}-lock`;
}
