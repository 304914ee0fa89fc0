import { badArgument, show } from '../core/errors.js';
import { loadAddon } from '../core/loader.js';
import type { NativeAddon } from '../core/native.js';
import type { NativeLane } from '../core/native-transfer.js';
import { BlockArena } from './block-arena.js';
import { CompletionQueue } from './completion-queue.js';
import type { Lane, LaneCounts } from './lane.js';

export interface HostLaneOptions {
  /** Threads that share the pieces of a job, 1 to 16. Default 1. */
  threads?: number;
  /** Most bytes that are copied in one go, 1 to 2^32 - 1, one block at least. Default 1 MiB. */
  pieceBytes?: number;
}

/**
 * A lane that copies by threads of its own, which keep no process alive and end with `dispose`, with their worker, or when
 * nobody holds the lane any more.
 */
export class HostLane implements Lane {
  readonly source: BlockArena;
  readonly target: BlockArena;
  readonly #native: NativeLane;

  /**
   * @param queue where its jobs complete
   * @param target an arena other than `source`, with blocks of the same size
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_DISPOSED, ERR_BLOCKSTEP_LIMIT if a thread cannot be started,
   * ERR_BLOCKSTEP_NO_NATIVE
   */
  constructor(
    queue: CompletionQueue,
    source: BlockArena,
    target: BlockArena,
    options: HostLaneOptions = {},
    addon: NativeAddon = loadAddon(),
  ) {
    if (!(queue instanceof CompletionQueue)) throw badArgument('queue', show(queue), 'a CompletionQueue');
    if (!(source instanceof BlockArena)) throw badArgument('source', show(source), 'a BlockArena');
    if (!(target instanceof BlockArena)) throw badArgument('target', show(target), 'a BlockArena');
    if (typeof options !== 'object' || options === null)
      throw badArgument('options', show(options), 'an object');
    const { threads = 1, pieceBytes = 2 ** 20 } = options;
    this.source = source;
    this.target = target;
    this.#native = addon.createLane(queue.native, source.native, target.native, { threads, pieceBytes });
  }

  submit(sources: Int32Array, targets: Int32Array, notBefore = -1): number {
    return this.#native.submit(sources, targets, notBefore);
  }

  settle(step: number): void {
    this.#native.settle(step);
  }

  cancel(job: number): boolean {
    return this.#native.cancel(job);
  }

  flush(jobs: Int32Array): void {
    this.#native.flush(jobs);
  }

  fence(): void {
    this.#native.fence();
  }

  counts(): LaneCounts {
    return this.#native.counts();
  }

  dispose(): void {
    this.#native.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
