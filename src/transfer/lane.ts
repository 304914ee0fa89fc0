import type { CompletionQueue } from './completion-queue.js';

/** What a lane has to do, and what it did. */
export interface LaneCounts {
  /** Jobs that are not over. */
  readonly pending: number;
  /** Those of them that wait for a step. */
  readonly waiting: number;
  /** Bytes copied so far, in so many copies of consecutive memory. */
  readonly bytes: number;
  readonly copies: number;
}

/**
 * An ordered stream of copies in one direction, between two tiers. Every method returns at once but `flush`, `fence` and
 * `dispose`. A job's completion stands in the lane's `CompletionQueue` once nothing of it reads or writes any more.
 *
 * Order: a job is over before the next one begins. They begin in the order of `submit`, but for those that wait for a
 * step: others overtake them, and those that become ready together begin in the order of their steps, then of `submit`.
 */
export interface Lane {
  /** Where its jobs complete; their numbers are the queue's. */
  readonly queue: CompletionQueue;
  /**
   * Has block `sources[i]` copied to block `targets[i]` for every i. Runs that are consecutive on both sides are copied as
   * one; the arrays are the caller's again when it returns. A job without blocks copies nothing, and has its place in the
   * order, waits and ends as any other.
   * @param targets each block once, as many as `sources`
   * @param notBefore the job begins only when this step was settled; default -1: it waits for none
   * @returns the job
   * @throws ERR_BLOCKSTEP_BAD_ARG; ERR_BLOCKSTEP_RING_FULL if the completion queue has no slot left;
   * ERR_BLOCKSTEP_DISPOSED if the lane was disposed, or its queue, where nobody could drain the job; nothing is changed then
   */
  submit(sources: Int32Array, targets: Int32Array, notBefore?: number): number;
  /** Every step up to this one was executed. A step behind what is settled already changes nothing. */
  settle(step: number): void;
  /**
   * Ends a job: now if it has not begun, otherwise between two of its pieces. It ends as `cancelled` if any piece of it
   * was not copied, as `ok` otherwise.
   * @returns false if it is over already or not of this lane
   */
  cancel(job: number): boolean;
  /**
   * Waits, and the thread with it, until these jobs are over: before blocks are reused that they read or write. Jobs of
   * other lanes count as over.
   * @throws ERR_BLOCKSTEP_BAD_ARG if one waits for a step that was not settled: settle it or cancel the job first
   */
  flush(jobs: Int32Array): void;
  /** Cancels what has not begun and waits for what has: nothing submitted before touches memory any more. */
  fence(): void;
  counts(): LaneCounts;
  /** Ends every job as `cancel` does, waits until nothing touches memory, and ends the lane. Idempotent. */
  dispose(): void;
}
