import { badArgument, show } from '../base/errors.js';
import { INSPECT, showFacts } from '../base/inspect.js';
import { checkNames, type KnownNames } from '../base/known-names.js';
import type { NativeLane } from '../core/native/native-transfer.js';
import { BlockArena } from './block-arena.js';
import { type CompletionQueue, checkQueue } from './completion-queue.js';
import type { Lane, LaneCounts } from './lane.js';

/** The common base of lanes that native code carries out: each method calls the native lane. */
export abstract class LaneOverNative implements Lane {
  readonly queue: CompletionQueue;
  /** The arena that the lane reads. */
  readonly source: BlockArena;
  /** The arena that the lane writes, with blocks of the same size. */
  readonly target: BlockArena;
  readonly #native: NativeLane;

  constructor(queue: CompletionQueue, source: BlockArena, target: BlockArena, native: NativeLane) {
    this.queue = queue;
    this.source = source;
    this.target = target;
    this.#native = native;
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

  /** For `util.inspect` and `console.log`: the places of both arenas, and the counts. */
  [INSPECT](depth: number, options: object): string {
    const [from, to] = [this.source, this.target].map(({ place }) => place);
    return showFacts(this.constructor.name, depth, options, { from, to }, () => this.counts());
  }

  /** As `dispose`, at the end of a `using` block. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}

/**
 * Checks the arguments of a lane's constructor before any of them is used.
 * @param known the names of its options
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function checkLane(
  queue: unknown,
  source: unknown,
  target: unknown,
  options: unknown,
  known: KnownNames,
): void {
  checkQueue(queue);
  if (!(source instanceof BlockArena)) throw badArgument('source', show(source), 'a BlockArena');
  if (!(target instanceof BlockArena)) throw badArgument('target', show(target), 'a BlockArena');
  if (typeof options !== 'object' || options === null)
    throw badArgument('options', show(options), 'an object');
  checkNames(options, known);
}
