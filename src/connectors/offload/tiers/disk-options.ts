import { badArg, checkName } from '../../../base/checks.js';
import { knownNames } from '../../../base/known-names.js';
import { checkOptions } from '../../base/option-checks.js';

/** A tier on disk behind the host tier: a file for each rank. */
export interface DiskOptions {
  /** The directory, which is created if missing. It belongs to one engine at a time. */
  path: string;
  /**
   * Name of the model, with everything that changes the KV of equal tokens: its version and its
   * numeric type. An engine finds an earlier engine's blocks only with the same name, block size,
   * KV cache groups, number of ranks and `hashSeed`. For a scheduler without a configured seed, the
   * disk keeps one.
   */
  model: string;
  /**
   * Maximum number of bytes on each rank, at least 1 MiB. The least recently used blocks are
   * removed first. Default 16 GiB.
   */
  maxBytes?: number;
  /**
   * Maximum milliseconds of one access to the disk; a slower access counts as a miss. Default
   * 5,000.
   */
  timeoutMs?: number;
}

const DISK = knownNames<DiskOptions>('the options of a disk tier', {
  path: true,
  model: true,
  maxBytes: true,
  timeoutMs: true,
});

/** Checks the options that the store itself does not check. @throws ERR_BLOCKSTEP_BAD_ARG */
export function checkDisk(disk: unknown): DiskOptions {
  checkOptions(disk, DISK);
  const { path, model } = disk as DiskOptions;
  if (typeof path !== 'string' || path === '') throw badArg('disk.path', path, 'the path of a directory');
  checkName('disk.model', model, 1);
  return disk as DiskOptions;
}
