import { isRecord } from '../base/checks.js';
import { badArgument, checkInteger, show } from '../base/errors.js';
import type { Place } from '../core/native/native-transfer.js';

/**
 * Says where an arena is, as plain data for another thread or process (`BlockArena.attach`). It
 * grants its holder nothing that the operating system would not grant.
 */
export interface ArenaDescriptor {
  /** Names the arena alone: 32 hexadecimal digits. */
  readonly id: string;
  /** The process that made the arena. */
  readonly pid: number;
  /** The arena's file in that process; null if other processes cannot map the arena. */
  readonly file: number | null;
  readonly numBlocks: number;
  /** Size of one block, in bytes. */
  readonly bytesPerBlock: number;
  /** The place of the memory. */
  readonly place: Place;
  /** Ordinal of the GPU, as CUDA counts them. */
  readonly device: number;
}

const PLACES: readonly unknown[] = ['host', 'pinned', 'device'] satisfies Place[];

/**
 * Checks the descriptor of an arena from another party.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function parseDescriptor(value: unknown): ArenaDescriptor {
  if (!isRecord(value)) throw badArgument('descriptor', show(value), 'an ArenaDescriptor');
  const { id, pid, file, numBlocks, bytesPerBlock, place, device } = value;
  if (typeof id !== 'string' || !/^[0-9a-f]{32}$/.test(id))
    throw badArgument('descriptor.id', show(id), '32 hexadecimal digits');
  if (!PLACES.includes(place)) throw badArgument('descriptor.place', show(place), PLACES.join(', '));
  return {
    id,
    pid: checkInteger('descriptor.pid', pid, 1, 2 ** 31 - 1),
    file: file === null ? null : checkInteger('descriptor.file', file, 0, 2 ** 31 - 1),
    numBlocks: checkInteger('descriptor.numBlocks', numBlocks, 1, 2 ** 24),
    bytesPerBlock: checkInteger('descriptor.bytesPerBlock', bytesPerBlock, 1, 2 ** 31 - 1),
    place: place as Place,
    device: checkInteger('descriptor.device', device, 0, 1023),
  };
}
