import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { closeSync, constants, fchmodSync, ftruncateSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { BlockstepError, describeError } from '../../../base/errors.js';
import { loadAddon } from '../../../core/loader.js';
import { type Identity, readIdentity, writeIdentity } from './head.js';

/** How a file is opened. */
export interface SlotFileOptions {
  /** What the values are of: whoever names something else finds the file empty. Default: the keys say it. */
  readonly names?: string;
  /** Whether one user at a time may have the file; what is no slot file of ours is overwritten then, since nobody else puts files there. */
  readonly isOwn?: boolean;
}

/** The files that this process has open, by path. */
const OPEN = new Map<string, SlotFile>();

/**
 * A file of slots that this process has open: its lock, and its identity. A second process is refused while this one lives; whoever opens it
 * in this process shares it. What is in the slots is the matter of `SlotStore`, on another thread.
 */
export class SlotFile {
  readonly path: string;
  readonly fd: number;
  /** Whether there was nothing of use in the file. */
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
   * Opens a file, or makes it, for its owner's eyes alone: whoever knows the hash seed can make blocks that others take for theirs.
   * @throws ERR_BLOCKSTEP_BAD_FILE: it cannot be made, read, written or locked; somebody else has it; it is no slot file
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
      mkdirSync(dirname(path), { recursive: true });
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

  /** The hash seed of engines that were given none, 16 bytes. It survives a restart. */
  get seed(): Uint8Array {
    return Uint8Array.from(Buffer.from(this.#identity.seed, 'hex'));
  }

  /** Stands in keys. */
  get epoch(): string {
    return this.#identity.epoch;
  }

  /** Begins an epoch, also for whoever opens the file later. @throws an error of the file system; then the file was emptied, if that could be */
  renew(): void {
    this.#identity = { ...this.#identity, epoch: randomUUID() };
    try {
      writeIdentity(this.fd, this.#identity);
    } catch (error) {
      ftruncateSync(this.fd);
      throw error;
    }
  }

  /** One user less. The last one closes the file, and nobody may read or write it any more. */
  release(): void {
    if (--this.#numUsers > 0) return;
    OPEN.delete(this.path);
    closeSync(this.fd);
  }
}

const HELD = 'another engine has it open';
const WHAT_IT_IS = {
  lmdb: 'it is a database of LMDB, in which blocks were kept before: delete it, or name another path',
  foreign: 'it is no slot file of blockstep: name another path',
} as const;

function refused(path: string, why: string, cause?: unknown): BlockstepError {
  return new BlockstepError('ERR_BLOCKSTEP_BAD_FILE', `${JSON.stringify(path)} cannot be used: ${why}`, {
    cause,
  });
}
