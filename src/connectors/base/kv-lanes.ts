import { BlockstepError } from '../../base/errors.js';
import type { BlockArena } from '../../transfer/block-arena.js';
import { CompletionQueue } from '../../transfer/completion-queue.js';
import { CudaLane } from '../../transfer/cuda-lane.js';
import { HostLane } from '../../transfer/host-lane.js';
import type { Lane } from '../../transfer/lane.js';
import { Verdict } from '../../transfer/verdict.js';
import type { KvMemory } from './kv-memory.js';

/** Makes a lane that copies from one arena to another. */
export type LaneFactory = (queue: CompletionQueue, source: BlockArena, target: BlockArena) => Lane;

/** The lane for two arenas: the GPU copies if one of them is on a GPU, threads otherwise. */
export const laneBetween: LaneFactory = (queue, source, target) =>
  source.place === 'device' || target.place === 'device'
    ? new CudaLane(queue, source, target)
    : new HostLane(queue, source, target);

/** Told once how a job ended. Nothing of the job touches memory any more. */
export type JobEnd = (verdict: Verdict) => void;

/**
 * The two lanes between the KV memory of a rank and another arena. Each job has a callback, which `drain` calls. A job
 * that cannot be submitted because too many are under way ends as `failed` in the next `drain`: no caller has to expect
 * an error.
 */
export class KvLanes {
  /** Where the jobs of both lanes complete. */
  readonly queue = new CompletionQueue();
  readonly #memory: KvMemory;
  readonly #loads: Lane;
  readonly #stores: Lane;
  readonly #ends = new Map<number, JobEnd>();
  /** Of jobs that no lane took, since the completion queue was full. */
  #refused: JobEnd[] = [];
  /** The last step that was settled; -1 = none. */
  #settled = -1;

  /**
   * @param other the arena that is loaded from and stored to; its blocks are as large as those of the KV memory
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_CUDA
   */
  constructor(memory: KvMemory, other: BlockArena, makeLane: LaneFactory = laneBetween) {
    this.#memory = memory;
    this.#loads = makeLane(this.queue, other, memory.kv);
    this.#stores = makeLane(this.queue, memory.kv, other);
  }

  /** Jobs whose ends `drain` has not told yet. */
  get numPending(): number {
    return this.#ends.size + this.#refused.length;
  }

  /**
   * Copies `places` of the other arena to `blocks` of the KV memory, once step `notBefore` was settled. If that goes
   * well, the KV memory is told before `end` is called.
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

  /** Cancels a job, if it has not ended; its callback is called as ever. */
  cancel(job: number): void {
    if (!this.#ends.has(job)) return;
    if (!this.#loads.cancel(job)) this.#stores.cancel(job);
  }

  /** Every step up to this one was executed. */
  settle(step: number): void {
    this.#settled = step;
    // A lane without jobs hears of it with its next one: an idle lane costs a step nothing.
    if (this.#ends.size > 0) this.#loads.settle(step);
  }

  /**
   * Calls back for every job that has ended since the last call. An error of a callback goes to the caller; the
   * remaining jobs come with the next call.
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
   * Cancels what has not begun, waits for what has, and tells the ends: then no job touches memory any more. What is told later would be
   * told of blocks that are somebody else's by then.
   */
  fence(): void {
    this.#loads.fence();
    this.#stores.fence();
    this.drain();
  }

  /** Ends every job and both lanes; no callback is called any more. Idempotent. */
  dispose(): void {
    for (const part of [this.#loads, this.#stores, this.queue]) part.dispose();
    this.#ends.clear();
    this.#refused = [];
  }

  /** Tells the KV memory of a load. A memory that does not take it has not loaded it: whoever waits must hear of an end. */
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
