import {
  closeSync,
  openSync,
  realpathSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  writeSync,
} from 'node:fs';
import { basename, dirname, join, resolve, sep } from 'node:path';
import { BlockstepError } from '../base/errors.js';

/**
 * A file that appears under its name when it is complete, or not at all. The content goes to
 * another name in the same folder, and `commit` renames it. Until then an older file of that name
 * stays.
 */
export class OutputFile {
  /** The path as passed by the caller. */
  readonly path: string;
  readonly #target: string;
  readonly #temporary: string;
  #descriptor: number | null;

  /**
   * Checks that the file can be written, and opens it.
   * @throws ERR_BLOCKSTEP_BAD_FILE if the path names a folder, device or pipe, or if its folder is
   * missing or not writable
   */
  constructor(path: string) {
    this.path = path;
    this.#target = attempt(path, () => targetOf(path));
    const name = `.${basename(this.#target).slice(0, 100)}.${process.pid}.${nextNumber++}.tmp`;
    this.#temporary = join(dirname(this.#target), name);
    this.#descriptor = attempt(path, () => openSync(this.#temporary, 'wx'));
  }

  /** The path that `commit` gives the file, with symbolic links followed. */
  get target(): string {
    return this.#target;
  }

  /** Appends bytes. @throws ERR_BLOCKSTEP_BAD_FILE if the system cannot write them */
  write(bytes: Uint8Array): void {
    attempt(this.path, () => {
      for (let at = 0; at < bytes.length; ) at += writeSync(this.#open(), bytes, at);
    });
  }

  /** Gives the file its name. @throws ERR_BLOCKSTEP_BAD_FILE; nothing is left behind then */
  commit(): void {
    attempt(this.path, () => {
      try {
        this.#close();
        renameSync(this.#temporary, this.#target);
      } catch (error) {
        this.discard();
        throw error;
      }
    });
  }

  /** Removes the written part. Does nothing after `commit`. */
  discard(): void {
    if (this.#descriptor !== null) this.#close();
    rmSync(this.#temporary, { force: true });
  }

  #open(): number {
    if (this.#descriptor === null) throw new Error('the file is closed');
    return this.#descriptor;
  }

  #close(): void {
    const descriptor = this.#open();
    this.#descriptor = null;
    closeSync(descriptor);
  }
}

let nextNumber = 0;

/**
 * The path of the file to replace. Symbolic links are followed, so that the file is replaced and
 * not the link.
 */
function targetOf(path: string): string {
  if (path === '' || path.endsWith(sep)) throw new Error('it names no file');
  const found: Stats | undefined = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) return join(realpathSync(dirname(resolve(path))), basename(resolve(path)));
  if (!found.isFile()) throw new Error(`it is ${found.isDirectory() ? 'a folder' : 'no regular file'}`);
  return realpathSync(path);
}

function attempt<T>(path: string, act: () => T): T {
  try {
    return act();
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    throw new BlockstepError('ERR_BLOCKSTEP_BAD_FILE', `${path}: cannot be written: ${code ?? message}`, {
      cause,
    });
  }
}
