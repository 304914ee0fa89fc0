import { BlockstepError } from '../../base/errors.js';
import { BlockArena } from '../../transfer/block-arena.js';
import { CompletionQueue } from '../../transfer/completion-queue.js';
import { CudaLane } from '../../transfer/cuda-lane.js';
import { HostLane } from '../../transfer/host-lane.js';
import type { Lane } from '../../transfer/lane.js';
import { Verdict } from '../../transfer/verdict.js';
import type { KvMemory, LanedMemory } from './kv-memory.js';

/** Makes a lane that copies from one arena to another. */
export type LaneFactory = (queue: CompletionQueue, source: BlockArena, target: BlockArena) => Lane;

/**
 * Makes the lane for two arenas. The GPU copies if one of the arenas is on a GPU; otherwise host
 * threads copy.
 */
export const laneBetween: LaneFactory = (queue, source, target) =>
  source.place === 'device' || target.place === 'device'
    ? new CudaLane(queue, source, target)
    : new HostLane(queue, source, target);

/** Called once with the verdict of a job. From then on, no copy of the job touches memory. */
export type JobEnd = (verdict: Verdict) => void;

/**
 * The two lanes between the KV memory of a rank and another arena. Each job has a callback, which
 * `drain` calls. If too many jobs are under way, a new job is not submitted and ends as `failed` in
 * the next `drain`. Callers therefore need not expect an error.
 */
export class KvLanes {
  /** The jobs of both lanes complete in this queue. */
  readonly queue = new CompletionQueue();
  readonly #memory: KvMemory | LanedMemory;
  readonly #loads: Lane;
  readonly #stores: Lane;
  readonly #ends = new Map<number, JobEnd>();
  /** Callbacks of jobs that no lane took because the completion queue was full. */
  #refused: JobEnd[] = [];
  /** The last step that was settled; -1 = none. */
  #settled = -1;

  /**
   * @param other the arena to load from and store to; its blocks have the size of the KV memory's
   * blocks
   * @param makeLane makes the lanes if the KV memory is an arena
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_CUDA
   */
  constructor(memory: KvMemory | LanedMemory, other: BlockArena, makeLane: LaneFactory = laneBetween) {
    this.#memory = memory;
    const { kv } = memory;
    const isArena = kv instanceof BlockArena;
    this.#loads = isArena ? makeLane(this.queue, other, kv) : kv.laneFrom(this.queue, other);
    this.#stores = isArena ? makeLane(this.queue, kv, other) : kv.laneTo(this.queue, other);
  }

  /** Number of jobs whose ends `drain` has not reported yet. */
  get numPending(): number {
    return this.#ends.size + this.#refused.length;
  }

  /**
   * Copies `places` of the other arena to `blocks` of the KV memory, after step `notBefore` was
   * settled. After a successful copy, `KvMemory.adopt` is called before `end`.
   * @param handle the request that the blocks are loaded for
   * @returns the job; 0 if no lane took it
   */
  load(handle: number, places: Int32Array, blocks: Int32Array, notBefore: number, end: JobEnd): number {
    if (this.#settled >= 0) this.#loads.settle(this.#settled);
    return this.#submit(this.#loads, places, blocks, notBefore, (verdict) => {
      end(verdict === Verdict.ok ? this.#adopt(handle, blocks) : verdict);
    });
  }

  /** Copies `blocks` of the KV memory to `places` of the other arena. @returns the job; 0 if no lane took it */
  store(blocks: Int32Array, places: Int32Array, end: JobEnd): number {
    return this.#submit(this.#stores, blocks, places, -1, end);
  }

  /** Cancels a job that has not ended. Its callback is called as usual. */
  cancel(job: number): void {
    if (!this.#ends.has(job)) return;
    if (!this.#loads.cancel(job)) this.#stores.cancel(job);
  }

  /** All steps up to this one were executed. */
  settle(step: number): void {
    this.#settled = step;
    // A lane without jobs learns of the step with its next job, so an idle lane costs a step
    // nothing.
    if (this.#ends.size > 0) this.#loads.settle(step);
  }

  /**
   * Calls the callback of every job that has ended since the last call. If a callback throws, the
   * caller gets the error, and the next call handles the remaining jobs.
   */
  drain(): void {
    while (this.#refused.length > 0) this.#refused.shift()?.(Verdict.failed);
    if (this.#ends.size === 0) return;
    this.queue.drain((job, verdict) => {
      const end = this.#ends.get(job);
      this.#ends.delete(job);
      end?.(verdict);
    });
  }

  /**
   * Cancels jobs that have not begun, waits for the others, and calls all callbacks. Afterwards no
   * job touches memory. A later callback would report blocks that other requests use by then.
   */
  fence(): void {
    this.#loads.fence();
    this.#stores.fence();
    this.drain();
  }

  /** Ends every job and both lanes. No callback is called any more. Idempotent. */
  dispose(): void {
    for (const part of [this.#loads, this.#stores, this.queue]) part.dispose();
    this.#ends.clear();
    this.#refused = [];
  }

  /**
   * Tells the KV memory of a load. If `adopt` throws, the load counts as failed, because its
   * waiters must be told of an end.
   */
  #adopt(handle: number, blocks: Int32Array): Verdict {
    try {
      this.#memory.adopt?.(handle, blocks);
      return Verdict.ok;
    } catch {
      return Verdict.failed;
    }
  }

  #submit(lane: Lane, sources: Int32Array, targets: Int32Array, notBefore: number, end: JobEnd): number {
    try {
      const job = lane.submit(sources, targets, notBefore);
      this.#ends.set(job, end);
      return job;
    } catch (error) {
      if (!(error instanceof BlockstepError) || error.code !== 'ERR_BLOCKSTEP_RING_FULL') throw error;
      this.#refused.push(end);
      return 0;
    }
  }
}
