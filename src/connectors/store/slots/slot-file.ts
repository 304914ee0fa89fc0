import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { closeSync, constants, fchmodSync, ftruncateSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { BlockstepError, describeError } from '../../../base/errors.js';
import { makeFolder } from '../../../base/make-folder.js';
import { loadAddon } from '../../../core/loader.js';
import { type Identity, readIdentity, writeIdentity } from './head.js';

/** Options for opening a file. */
export interface SlotFileOptions {
  /**
   * Names the origin of the values. A user with another name finds the file empty. Default: the
   * keys identify the origin.
   */
  readonly names?: string;
  /**
   * Whether only one user at a time may have the file. A file that is no slot file is then
   * overwritten, because no other program puts files there.
   */
  readonly isOwn?: boolean;
}

/** The files that this process has open, by path. */
const OPEN = new Map<string, SlotFile>();

/**
 * A slot file that this process has open: its lock and its identity. Other processes are refused
 * while this process lives. All users in this process share the file. `SlotStore`, on another
 * thread, manages the contents of the slots.
 */
export class SlotFile {
  readonly path: string;
  readonly fd: number;
  /** Whether the file had no usable content. */
  readonly isNew: boolean;
  #identity: Identity;
  #numUsers = 1;

  private constructor(path: string, fd: number, { names = '', isOwn = false }: SlotFileOptions) {
    this.path = path;
    this.fd = fd;
    const found = readIdentity(fd);
    if (!isOwn && (found === 'lmdb' || found === 'foreign')) throw new Error(WHAT_IT_IS[found]);
    const before = typeof found === 'string' ? null : found.identity;
    const named = createHash('sha256').update(names).digest('hex');
    this.isNew = before?.names !== named;
    const seed = before?.seed ?? randomBytes(16).toString('hex');
    this.#identity = this.isNew || before === null ? { seed, epoch: randomUUID(), names: named } : before;
    if (!this.isNew) return;
    ftruncateSync(fd);
    writeIdentity(fd, this.#identity);
  }

  /**
   * Opens or creates a file that only its owner can read. A process that knows the hash seed could
   * forge blocks that other engines accept.
   * @throws ERR_BLOCKSTEP_BAD_FILE: the file cannot be created, read, written or locked; another
   * process has it; it is no slot file
   */
  static open(path: string, options: SlotFileOptions = {}): SlotFile {
    const shared = OPEN.get(path);
    if (shared !== undefined && options.isOwn !== true) {
      shared.#numUsers++;
      return shared;
    }
    if (shared !== undefined) throw refused(path, HELD);
    let fd = -1;
    try {
      makeFolder(dirname(path));
      fd = openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600);
      const unlocked = loadAddon().lockFile(fd);
      if (unlocked !== null) throw new Error(unlocked === 'held' ? HELD : `it cannot be locked: ${unlocked}`);
      fchmodSync(fd, 0o600);
      const file = new SlotFile(path, fd, options);
      OPEN.set(path, file);
      return file;
    } catch (cause) {
      if (fd >= 0) closeSync(fd);
      throw refused(path, describeError(cause), cause);
    }
  }

  /** The hash seed of engines without a configured seed, 16 bytes. It survives a restart. */
  get seed(): Uint8Array {
    return Uint8Array.from(Buffer.from(this.#identity.seed, 'hex'));
  }

  /** The epoch, a part of all keys. */
  get epoch(): string {
    return this.#identity.epoch;
  }

  /**
   * Begins a new epoch, also for later users of the file. @throws an error of the file system. The
   * file was then emptied if possible
   */
  renew(): void {
    this.#identity = { ...this.#identity, epoch: randomUUID() };
    try {
      writeIdentity(this.fd, this.#identity);
    } catch (error) {
      ftruncateSync(this.fd);
      throw error;
    }
  }

  /**
   * Removes one user. The last one closes the file, and no thread may read or write it any more.
   */
  release(): void {
    if (--this.#numUsers > 0) return;
    OPEN.delete(this.path);
    closeSync(this.fd);
  }
}

const HELD = 'another engine has it open';
const WHAT_IT_IS = {
  lmdb: 'it is a database of LMDB, in which blocks were kept before: delete it, or name another path',
  foreign: 'it is not a slot file of blockstep: name another path',
} as const;

function refused(path: string, why: string, cause?: unknown): BlockstepError {
  return new BlockstepError('ERR_BLOCKSTEP_BAD_FILE', `${JSON.stringify(path)} cannot be used: ${why}`, {
    cause,
  });
}
