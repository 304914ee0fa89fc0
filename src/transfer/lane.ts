import type { CompletionQueue } from './completion-queue.js';

/** What a lane still has to do, and what it has done. */
export interface LaneCounts {
  /** Jobs that are not over. */
  readonly pending: number;
  /** Jobs that wait for a step. */
  readonly waiting: number;
  /** Bytes copied so far, and in how many copies of consecutive memory. */
  readonly bytes: number;
  readonly copies: number;
}

/**
 * An ordered stream of copies in one direction, between two tiers. Every method returns at once, except `flush`, `fence` and
 * `dispose`. A job's completion stands in the lane's `CompletionQueue` once nothing of the job reads or writes any more.
 *
 * Order: a job is over before the next one begins. Jobs begin in the order of `submit`. Only jobs that wait for a step are
 * overtaken; those that become ready together begin in the order of their steps, then of `submit`.
 */
export interface Lane {
  /** Where its jobs complete; their numbers are the queue's. */
  readonly queue: CompletionQueue;
  /**
   * Has block `sources[i]` copied to block `targets[i]` for every i. Blocks that are consecutive on both sides are copied in one go.
   * The arrays are the caller's again when this returns. A job without blocks copies nothing; it has its place in the order, waits
   * and ends as any other job.
   * @param targets each block once, as many as `sources`
   * @param notBefore the job begins only when this step was settled; default -1: it waits for none
   * @returns the job
   * @throws ERR_BLOCKSTEP_BAD_ARG; ERR_BLOCKSTEP_RING_FULL if the completion queue has no slot left;
   * ERR_BLOCKSTEP_DISPOSED if the lane was disposed, or its queue, where nobody could drain the job; nothing is changed then
   */
  submit(sources: Int32Array, targets: Int32Array, notBefore?: number): number;
  /** Says that every step up to this one was executed. Nothing happens if a later step was settled already. */
  settle(step: number): void;
  /**
   * Ends a job: now if it has not begun, otherwise between two of its pieces. The job ends as `cancelled` if any piece of it was not
   * copied, as `ok` otherwise.
   * @returns false if the job is over already, or is not of this lane
   */
  cancel(job: number): boolean;
  /**
   * Blocks the thread until these jobs are over: to be called before blocks are reused that they read or write. Jobs of other lanes
   * count as over.
   * @throws ERR_BLOCKSTEP_BAD_ARG if a job waits for a step that was not settled: settle the step or cancel the job first
   */
  flush(jobs: Int32Array): void;
  /** Cancels jobs that have not begun and waits for those that have. Then no job submitted before touches memory any more. */
  fence(): void;
  counts(): LaneCounts;
  /** Ends every job as `cancel` does, waits until nothing touches memory, and ends the lane. Idempotent. */
  dispose(): void;
}
