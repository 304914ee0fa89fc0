import type { Plan } from '../plan/plan.js';
import type { Request } from '../request/request.js';

/**
 * One of the two queues that a borrowing adapter sees. Reading it makes a copy, so that requests may leave while it is
 * read.
 */
export interface BorrowQueue extends Iterable<Request> {
  /** Requests in the queue. */
  readonly length: number;
  /** Whether the queue holds this request. */
  has(request: Request): boolean;
  /**
   * Takes a request out, so that this step does not schedule it. Only `processPendingChunks` may do that.
   * @returns false, and counted, if the queue does not hold the request
   */
  remove(request: Request): boolean;
  /**
   * Puts a request back that was taken out: behind the others. It must go into the queue that it came from.
   * @returns false, and counted, if it is not out: it has ended, is unknown, or was put back already. If it came from
   * the other queue it is put back there, and the answer is false and counted too
   */
  pushBack(request: Request): boolean;
  /** As `pushBack`, in front of the others. */
  pushFront(request: Request): boolean;
}

/** What a borrowing adapter sees of a scheduler, while the scheduler calls it. */
export interface BorrowQueues {
  /**
   * Requests that could be admitted as far as the scheduler is concerned, in the order in which it would look at them.
   * Not those that wait for a grammar, a load, their connector, or the next chunk of a session.
   */
  readonly waiting: BorrowQueue;
  /** Requests that have a place in steps. */
  readonly running: BorrowQueue;
  /** All unfinished requests by external id. Two requests may have had one id: compare objects, not ids. */
  readonly live: ReadonlyMap<string, Request>;
  /**
   * Ends a request with `error` when the next step is planned, for instance because its next chunk is overdue.
   * @param why for people; becomes `Request.failure`
   * @returns false if the request has ended, or is unknown
   */
  fail(request: Request, why: string): boolean;
}

/**
 * An adapter that borrows requests: it takes them out of the queues before a step is planned and puts them back
 * afterwards, for instance those whose next chunk of input has not come (vllm-omni `OmniChunkTransferAdapter`).
 *
 * It may write `Request.status` of requests that it sees: WAITING_FOR_CHUNK is its own word. Whatever it leaves in a
 * queue is scheduled, whatever status it has; so to hold a request up the adapter takes it out. A running request that
 * is taken out keeps its blocks, its row and its place among `maxNumSeqs`.
 *
 * Nothing that it does throws out of a call of the scheduler. A method that throws, and a request that is lost, put back
 * twice, into the wrong queue, or after its end, is counted as an anomaly. What it lost the scheduler puts back.
 */
export interface BorrowingAdapter {
  /**
   * The arrays in which it keeps what it has taken out. The scheduler takes out of them, in place and in order, whatever
   * is no unfinished request of its own, before each `processPendingChunks` and before each `restoreQueues`.
   */
  readonly parked: readonly Request[][];
  /** Takes requests out of the queues; called before each step is planned. */
  processPendingChunks(queues: BorrowQueues): void;
  /** Puts requests back; called when the step is planned. Whatever is still out afterwards counts as lost. */
  restoreQueues(queues: BorrowQueues): void;
  /** Told of each plan, after `restoreQueues`; vllm-omni's `postprocess_scheduler_output`. It must not change the plan. */
  postprocess?(plan: Plan): void;
  /** Told of requests that somebody ends from outside, before they end: it can set their status right. */
  finishRequests?(requests: readonly Request[]): void;
  /**
   * Told of each request that has ended, whatever ended it, and of each stranger found in `parked`: once, so that the
   * adapter forgets it.
   */
  cleanupReceiver?(request: Request): void;
}
