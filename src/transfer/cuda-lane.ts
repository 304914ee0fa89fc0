import { knownNames } from '../base/known-names.js';
import { loadAddon } from '../core/loader.js';
import type { NativeAddon } from '../core/native.js';
import type { CompletionMode, CopyMode, NativeCudaLane } from '../core/native-transfer.js';
import type { BlockArena } from './block-arena.js';
import type { CompletionQueue } from './completion-queue.js';
import { checkLane, LaneOverNative } from './lane-over-native.js';

export interface CudaLaneOptions {
  /**
   * How runs of blocks are copied. `auto`, the default: small ones by a kernel of a few thread blocks, all others by the copy
   * engine. `batch`: all by batches for the copy engine. `kernel`: all by the kernel. `copies`: all by one call each.
   */
  mode?: CopyMode;
  /** How the GPU says what it has done. `auto`, the default: it stores it in pinned memory, and where it cannot, by events. */
  completion?: CompletionMode;
  /** With `auto`, runs of fewer bytes than this go by the kernel. Default: measured when the lane is made, in some 20 ms. */
  cut?: number;
  /** Most bytes that are given to the GPU ahead, one piece at least: what `fence` may have to wait for. Default 1 GiB. */
  windowBytes?: number;
  /** Milliseconds that `flush`, `fence` and `dispose` wait without any progress before the GPU counts as lost. Default 10,000. */
  patienceMs?: number;
}

const OPTIONS = knownNames<CudaLaneOptions>('the options of a CudaLane', {
  mode: true,
  completion: true,
  cut: true,
  windowBytes: true,
  patienceMs: true,
});

/** How a lane does its work. */
export interface CudaLaneInfo {
  /** Which GPU, as CUDA counts them. */
  readonly device: number;
  /** `kernel` if all runs go by it; otherwise how those go that are not below their cut. */
  readonly mode: 'batch' | 'kernel' | 'copies';
  readonly completion: 'write-value' | 'event';
  /** Of about so many runs copied together, runs of fewer bytes than this go by the kernel. */
  readonly cuts: readonly { readonly runs: number; readonly bytes: number }[];
  /** Milliseconds that measuring the cuts took; 0 if they were not measured. */
  readonly calibrationMs: number;
}

/**
 * A lane whose copies a GPU makes, in a stream of its own: between an arena on that GPU and one in pinned memory, in either
 * direction, or between two arenas on that GPU. The lane has no thread. What the GPU has done is noted when the queue is drained or
 * the lane is called; until then arrivals and counts are as they were.
 *
 * Pieces that were given to the GPU are copied for sure. `cancel` and `fence` keep back only pieces that the window has not let
 * through yet; a job all of whose pieces were given ends as `ok`. A job fails if a call for one of its pieces fails. If the GPU is
 * lost, or makes no progress, every job fails, `submit` and `recordStep` throw ERR_BLOCKSTEP_CUDA, and memory that the GPU may still
 * touch is never freed.
 */
export class CudaLane extends LaneOverNative {
  readonly info: CudaLaneInfo;
  readonly #native: NativeCudaLane;

  /**
   * @param queue where its jobs complete
   * @param source on a GPU or in pinned memory
   * @param target another one, with blocks of the same size; at least one of the two is on a GPU, and no other GPU
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_CUDA, ERR_BLOCKSTEP_DISPOSED, ERR_BLOCKSTEP_NO_MEMORY,
   * ERR_BLOCKSTEP_NO_NATIVE
   */
  constructor(
    queue: CompletionQueue,
    source: BlockArena,
    target: BlockArena,
    options: CudaLaneOptions = {},
    addon: NativeAddon = loadAddon(),
  ) {
    checkLane(queue, source, target, options, OPTIONS);
    const { mode = 'auto', completion = 'auto', cut = null } = options;
    const { windowBytes = 2 ** 30, patienceMs = 10_000 } = options;
    const config = { mode, completion, cut, windowBytes, patienceMs };
    const native = addon.createCudaLane(queue.native, source.native, target.native, config);
    super(queue, source, target, native);
    this.#native = native;
    this.info = native.info();
  }

  /**
   * Says that the work of every step up to this one is queued in a stream of the lane's GPU. Jobs that wait for such a step need no
   * `settle` any more: they begin in their turn, and wait on the GPU for what is queued in the stream now. Jobs submitted behind them
   * wait with them. Steps come in order; nothing happens for a step that was recorded or settled already.
   * @param stream a cudaStream_t, which is not being captured; what is queued there must end without this thread
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_CUDA, ERR_BLOCKSTEP_DISPOSED; nothing is changed then
   */
  recordStep(step: number, stream: bigint): void {
    this.#native.recordStep(step, stream);
  }
}
