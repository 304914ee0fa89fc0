import {
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { basename, dirname, join, sep } from 'node:path';
import { isObject } from '../../../base/checks.js';
import { makeFolder } from '../../../base/make-folder.js';
import { downloadError, systemWords } from './download-error.js';
import { isPlainPath } from './hub-name.js';
import type { HubFile } from './listing.js';

/** The record of downloaded files: path, size and verified hash. */
const RECORD = 'fetched.json';
const LOCK = '.lock';

/**
 * The folder of one model of a hub: its files under the hub's names, and a record of the complete
 * files.
 */
export class ModelCache {
  readonly folder: string;

  constructor(root: string, owner: string, name: string) {
    this.folder = join(root, owner, name);
  }

  /** The complete files in the folder. */
  files(): readonly HubFile[] {
    return this.#read().filter(({ path, size }) => sizeOf(join(this.folder, path)) === size);
  }

  /** The files that are not here, or differ from those here. */
  missing(files: readonly HubFile[]): readonly HubFile[] {
    const here = this.files();
    const isHere = ({ path, size, hash }: HubFile): boolean =>
      here.some((each) => each.path === path && each.size === size && each.hash === hash);
    return files.filter((file) => !isHere(file));
  }

  /** The path of a file in the folder. */
  place(path: string): string {
    return join(this.folder, path);
  }

  /**
   * The path of a growing download, beside the final path. The hash keeps downloads of different
   * contents apart.
   */
  partial({ path, hash }: HubFile): string {
    return join(this.folder, `${path}.${hash.replace(/^\w+:/, '').slice(0, 16)}.part`);
  }

  /** Makes the folder of a file. @throws ERR_BLOCKSTEP_DOWNLOAD if links lead it elsewhere */
  prepare(path: string): void {
    const folder = dirname(this.place(path));
    try {
      makeFolder(folder);
      const root = realpathSync(dirname(dirname(this.folder)));
      if (`${realpathSync(folder)}${sep}`.startsWith(`${root}${sep}`)) return;
    } catch (error) {
      throw downloadError(`the folder ${folder} cannot be made: ${systemWords(error)}`, error);
    }
    throw downloadError(`the folder ${folder} is a link to elsewhere; nothing is written there`);
  }

  /**
   * Takes in a verified file in place of an older one. Other partial downloads of this file are
   * removed.
   */
  adopt(file: HubFile): void {
    const place = this.place(file.path);
    // The record never names old content for a new file, or the reverse: there is no record
    // meanwhile.
    this.forget(file.path);
    renameSync(this.partial(file), place);
    this.#write([...this.#read(), file]);
    const folder = dirname(place);
    for (const name of readdirSync(folder))
      if (name.startsWith(`${basename(place)}.`) && name.endsWith('.part')) rmSync(join(folder, name));
  }

  /** Removes files from the record, because others of their names will come. */
  forget(...paths: readonly string[]): void {
    const all = this.#read();
    const kept = all.filter(({ path }) => !paths.includes(path));
    if (kept.length < all.length) this.#write(kept);
  }

  /**
   * Keeps other processes from downloading the same model, until the returned function is called.
   * @throws ERR_BLOCKSTEP_DOWNLOAD if another process does
   */
  lock(): () => void {
    this.prepare(LOCK);
    const path = this.place(LOCK);
    const own = `${process.pid} ${hostname()}`;
    for (;;) {
      try {
        writeFileSync(path, own, { flag: 'wx' });
        return () => rmSync(path, { force: true });
      } catch (error) {
        if (systemWords(error) !== 'EEXIST')
          throw downloadError(`the file ${path} cannot be written: ${systemWords(error)}`, error);
      }
      const [pid, host] = textOf(path).split(' ');
      if (host !== hostname() || isAlive(Number(pid)))
        throw downloadError(
          `the process ${pid} of ${host} fetches the same model into ${this.folder}; if it does not, remove ${path}`,
        );
      rmSync(path, { force: true });
    }
  }

  #read(): HubFile[] {
    let said: unknown;
    try {
      said = JSON.parse(textOf(this.place(RECORD)));
    } catch {
      return [];
    }
    if (!isObject(said) || !Array.isArray(said['files'])) return [];
    return (said['files'] as unknown[]).flatMap((each) => {
      if (!isObject(each)) return [];
      const { path, size, hash } = each;
      const isFile = typeof path === 'string' && isPlainPath(path) && typeof hash === 'string';
      return isFile ? [{ path, size: Number(size), hash }] : [];
    });
  }

  #write(files: readonly HubFile[]): void {
    const path = this.place(RECORD);
    writeFileSync(`${path}.new`, `${JSON.stringify({ files }, null, 1)}\n`);
    renameSync(`${path}.new`, path);
  }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function sizeOf(path: string): number | null {
  return statSync(path, { throwIfNoEntry: false })?.size ?? null;
}

function isAlive(pid: number): boolean {
  // This process downloads the model in another call or thread.
  if (pid === process.pid) return true;
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return systemWords(error) === 'EPERM';
  }
}
