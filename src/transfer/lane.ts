import type { CompletionQueue } from './completion-queue.js';

/** The jobs that a lane has, and the work that it did. */
export interface LaneCounts {
  /** Jobs that are not over. */
  readonly pending: number;
  /** Jobs among these that wait for a step (`notBefore`). */
  readonly waiting: number;
  /** Bytes copied so far. */
  readonly bytes: number;
  /** Copies made so far, each of consecutive memory. */
  readonly copies: number;
}

/**
 * An ordered stream of copies in one direction, between two tiers of KV blocks. Every method
 * returns at once except `flush`, `fence` and `dispose`. A job completes in the lane's
 * `CompletionQueue` only when none of its copies reads or writes memory any more. After `dispose`
 * every other method throws ERR_BLOCKSTEP_DISPOSED.
 *
 * Order: a job is over before the next one begins. Jobs begin in the order of `submit`. A job that
 * waits for a step is overtaken by later jobs. Jobs that become ready together begin in the order
 * of their steps, and jobs of the same step in the order of `submit`.
 */
export interface Lane {
  /** The queue where the lane's jobs complete. The queue numbers them. */
  readonly queue: CompletionQueue;
  /**
   * Submits a job: copies block `sources[i]` to block `targets[i]` for every i. Runs of blocks that
   * are consecutive on both sides are copied as one. The arrays may be reused when the call
   * returns. A job without blocks copies nothing; it has its place in the order, waits and ends
   * like any other.
   * @param targets as many as `sources`, each block once
   * @param notBefore the job begins only when this step was settled; default -1 = it waits for no
   * step
   * @returns the job
   * @throws ERR_BLOCKSTEP_BAD_ARG. ERR_BLOCKSTEP_RING_FULL if the completion queue has no free
   * slot. ERR_BLOCKSTEP_DISPOSED if the lane was disposed, or its queue, which then could not hand
   * the job out. Nothing is changed then
   */
  submit(sources: Int32Array, targets: Int32Array, notBefore?: number): number;
  /**
   * Tells the lane that every step up to this one was executed. A step before the last settled one
   * changes nothing.
   */
  settle(step: number): void;
  /**
   * Cancels a job: at once if it has not begun, otherwise between two of its pieces. The job ends
   * as `cancelled` if any of its pieces was not copied, and as `ok` otherwise.
   * @returns false if the job is over already, or belongs to another lane
   */
  cancel(job: number): boolean;
  /**
   * Blocks the thread until these jobs are over. Call it before blocks are reused that the jobs
   * read or write. Jobs of other lanes count as over.
   * @throws ERR_BLOCKSTEP_BAD_ARG if a job waits for a step that was not settled: settle the step
   * or cancel the job first
   */
  flush(jobs: Int32Array): void;
  /**
   * Cancels the jobs that have not begun, and blocks the thread until all others are over. No job
   * submitted before touches memory any more.
   */
  fence(): void;
  /** The jobs of the lane now, and its work since it was made. @throws ERR_BLOCKSTEP_DISPOSED */
  counts(): LaneCounts;
  /**
   * Ends every job as `cancel` does, blocks the thread until none touches memory, and ends the
   * lane. Idempotent.
   */
  dispose(): void;
}
