import { badArg, checkName } from '../../../base/checks.js';
import { knownNames } from '../../../base/known-names.js';
import { checkOptions } from '../../base/option-checks.js';

/** A tier on disk behind the host tier: a file for each rank. */
export interface DiskOptions {
  /** The directory, which is made where there is none. It belongs to one engine at a time. */
  path: string;
  /**
   * What the KV is of: the model, its version, its numeric type, whatever changes the KV of equal tokens. An engine finds
   * what an earlier one stored only if both have this name, the size of a block, and the scheduler's `hashSeed`; of a scheduler that is
   * given none, the disk keeps one.
   */
  model: string;
  /** Most bytes on each rank, at least 1 MiB. What was not used for longest goes first. Default 16 GiB. */
  maxBytes?: number;
  /** Most milliseconds of one access to the disk; a slower one counts as a miss. Default 5,000. */
  timeoutMs?: number;
}

const DISK = knownNames<DiskOptions>('the options of a disk tier', {
  path: true,
  model: true,
  maxBytes: true,
  timeoutMs: true,
});

/** Checks what the store behind does not. @throws ERR_BLOCKSTEP_BAD_ARG */
export function checkDisk(disk: unknown): DiskOptions {
  checkOptions(disk, DISK);
  const { path, model } = disk as DiskOptions;
  if (typeof path !== 'string' || path === '') throw badArg('disk.path', path, 'the path of a directory');
  checkName('disk.model', model, 1);
  return disk as DiskOptions;
}
