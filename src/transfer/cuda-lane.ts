import { knownNames } from '../base/known-names.js';
import { loadAddon } from '../core/loader.js';
import type { NativeAddon } from '../core/native/native.js';
import type { CompletionMode, CopyMode, NativeCudaLane } from '../core/native/native-transfer.js';
import type { BlockArena } from './block-arena.js';
import type { CompletionQueue } from './completion-queue.js';
import { checkLane, LaneOverNative } from './lane-over-native.js';

/** Options of a `CudaLane`. */
export interface CudaLaneOptions {
  /**
   * How runs of consecutive blocks are copied. `auto`, the default: by a kernel of a few thread
   * blocks; blocks that are no multiples of 16 bytes by the copy engine. `kernel`: by the kernel.
   * `batch`: in batches by the copy engine. `copies`: one call of the copy engine for each run. On
   * the copy engine the copies of one stream may wait for as long as another stream copies in the
   * same direction.
   */
  mode?: CopyMode;
  /**
   * How the GPU reports its progress. `auto`, the default: it writes a word in pinned memory, or
   * records events where it cannot.
   */
  completion?: CompletionMode;
  /**
   * Most bytes that are queued on the GPU ahead, one piece at least. `fence` may have to wait for
   * them. Default 256 MiB.
   */
  windowBytes?: number;
  /**
   * How long `flush`, `fence` and `dispose` wait without any progress before the GPU counts as
   * lost, in milliseconds. Default 10,000.
   */
  patienceMs?: number;
}

const OPTIONS = knownNames<CudaLaneOptions>('the options of a CudaLane', {
  mode: true,
  completion: true,
  windowBytes: true,
  patienceMs: true,
});

/** How a CUDA lane does its work. */
export interface CudaLaneInfo {
  /** Ordinal of the GPU, as CUDA counts them. */
  readonly device: number;
  /** How runs are copied. */
  readonly mode: 'batch' | 'kernel' | 'copies';
  /**
   * How the GPU reports progress: it writes a word in pinned memory (`write-value`), or records
   * CUDA events.
   */
  readonly completion: 'write-value' | 'event';
}

/**
 * A lane whose copies a GPU makes, in a CUDA stream of the lane's own. It copies between an arena
 * on that GPU and one in pinned memory, in either direction, or between two arenas on that GPU. The
 * lane has no thread. It notes the progress of the GPU when its queue is drained or one of its
 * methods is called. Until then arrivals and counts stay as they were.
 *
 * Pieces that were queued on the GPU are copied. `cancel` and `fence` stop only the pieces that the
 * window has not let through, and a job whose pieces were all queued ends as `ok`. A job fails if a
 * CUDA call for one of its pieces fails. If the GPU is lost or makes no progress, every job fails,
 * and `submit` and `recordStep` throw ERR_BLOCKSTEP_CUDA. Memory that the GPU may still touch is
 * then never freed.
 */
export class CudaLane extends LaneOverNative {
  /** How the lane does its work, as determined when the lane was made. */
  readonly info: CudaLaneInfo;
  readonly #native: NativeCudaLane;

  /**
   * @param queue the queue where the lane's jobs complete
   * @param source on a GPU or in pinned memory
   * @param target another arena, with blocks of the same size. At least one of the two is on a GPU,
   * and they are not on two different GPUs
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_CUDA, ERR_BLOCKSTEP_DISPOSED,
   * ERR_BLOCKSTEP_NO_MEMORY, ERR_BLOCKSTEP_NO_NATIVE
   */
  constructor(
    queue: CompletionQueue,
    source: BlockArena,
    target: BlockArena,
    options: CudaLaneOptions = {},
    addon: NativeAddon = loadAddon(),
  ) {
    checkLane(queue, source, target, options, OPTIONS);
    const { mode = 'auto', completion = 'auto', windowBytes = 2 ** 28, patienceMs = 10_000 } = options;
    const config = { mode, completion, windowBytes, patienceMs };
    const native = addon.createCudaLane(queue.native, source.native, target.native, config);
    super(queue, source, target, native);
    this.#native = native;
    this.info = native.info();
  }

  /**
   * Tells the lane that all work of the steps up to this one is queued in a stream of its GPU. Jobs
   * that wait for such a step need no `settle` any more. They begin in their turn, and wait on the
   * GPU for the work that is queued in the stream now. Jobs submitted behind them wait with them.
   * Steps come in ascending order; a step that was recorded or settled already changes nothing.
   * @param stream a cudaStream_t that is not being captured; work queued in it must end without
   * this thread
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_CUDA, ERR_BLOCKSTEP_DISPOSED; nothing is changed
   * then
   */
  recordStep(step: number, stream: bigint): void {
    this.#native.recordStep(step, stream);
  }
}
