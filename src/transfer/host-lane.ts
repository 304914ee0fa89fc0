import { knownNames } from '../base/known-names.js';
import { loadAddon } from '../core/loader.js';
import type { NativeAddon } from '../core/native/native.js';
import type { BlockArena } from './block-arena.js';
import type { CompletionQueue } from './completion-queue.js';
import { checkLane, LaneOverNative } from './lane-over-native.js';

/** Options of a `HostLane`. */
export interface HostLaneOptions {
  /** Threads that share the pieces of a job, 1 to 16. Default 1. */
  threads?: number;
  /**
   * Most bytes of one piece, which is copied in one go: 1 to 2^32 - 1, one block at least. Default
   * 1 MiB.
   */
  pieceBytes?: number;
}

const OPTIONS = knownNames<HostLaneOptions>('the options of a HostLane', { threads: true, pieceBytes: true });

/**
 * A lane that copies on the CPU, with threads of its own. The threads keep no process alive. They
 * end with `dispose`, with the worker thread that made the lane, or when the lane is garbage
 * collected.
 */
export class HostLane extends LaneOverNative {
  /**
   * @param queue the queue where the lane's jobs complete
   * @param target an arena other than `source`, with blocks of the same size; neither is on a GPU
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_DISPOSED, ERR_BLOCKSTEP_NO_NATIVE;
   * ERR_BLOCKSTEP_LIMIT if a thread cannot be started
   */
  constructor(
    queue: CompletionQueue,
    source: BlockArena,
    target: BlockArena,
    options: HostLaneOptions = {},
    addon: NativeAddon = loadAddon(),
  ) {
    checkLane(queue, source, target, options, OPTIONS);
    const { threads = 1, pieceBytes = 2 ** 20 } = options;
    const config = { threads, pieceBytes };
    super(queue, source, target, addon.createLane(queue.native, source.native, target.native, config));
  }
}
