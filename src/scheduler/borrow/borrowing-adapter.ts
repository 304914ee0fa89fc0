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
   * Takes a request out, so that this step does not schedule it. Only `processPendingChunks` may do
   * this.
   * @returns false, and counted, if the queue does not hold the request
   */
  remove(request: Request): boolean;
  /**
   * Puts a request back that was taken out, behind the others. The request must return to the queue
   * that it came from.
   * @returns false, and counted, if the request is not out: it has ended, is unknown, or was put
   * back already. If it came from the other queue it is put back there, and the answer is false and
   * counted too
   */
  pushBack(request: Request): boolean;
  /** Like `pushBack`, in front of the others. */
  pushFront(request: Request): boolean;
}

/** The scheduler's state as a borrowing adapter sees it, while the scheduler calls the adapter. */
export interface BorrowQueues {
  /**
   * Requests that the scheduler could admit, in the order in which it would consider them. Excluded
   * are requests that wait for a grammar, a load, their connector, or the next chunk of a session.
   */
  readonly waiting: BorrowQueue;
  /** Requests that have a place in steps. */
  readonly running: BorrowQueue;
  /**
   * All unfinished requests by external id. An id may have been used by two requests, so compare
   * objects and not ids.
   */
  readonly live: ReadonlyMap<string, Request>;
  /**
   * Ends a request with `error` when the next step is planned, for instance because its next chunk is overdue.
   * @param why for people; becomes `Request.failure`
   * @returns false if the request has ended, or is unknown
   */
  fail(request: Request, why: string): boolean;
}

/**
 * An adapter that borrows requests. It takes them out of the queues before a step is planned and
 * puts them back afterwards. A typical reason is that their next chunk of input has not come
 * (vllm-omni `OmniChunkTransferAdapter`).
 *
 * It may write `Request.status` of requests that it sees: WAITING_FOR_CHUNK is a status of its own.
 * A request that stays in a queue is scheduled, whatever its status. So the adapter must take a
 * request out to hold it up. A running request that is taken out keeps its blocks, its row and its
 * place among `maxNumSeqs`.
 *
 * No error of the adapter is thrown out of a call of the scheduler. A method that throws is counted
 * as an anomaly. So is a request that is lost, or put back twice, into the wrong queue, or after
 * its end. The scheduler puts back requests that the adapter lost.
 */
export interface BorrowingAdapter {
  /**
   * The arrays in which the adapter keeps the requests that it took out. Before each
   * `processPendingChunks` and each `restoreQueues`, the scheduler removes every element that is
   * not an unfinished request of its own, in place and in order.
   */
  readonly parked: readonly Request[][];
  /** Takes requests out of the queues; called before each step is planned. */
  processPendingChunks(queues: BorrowQueues): void;
  /**
   * Puts requests back; called when the step is planned. Requests that are still out afterwards
   * count as lost.
   */
  restoreQueues(queues: BorrowQueues): void;
  /**
   * Receives each plan, after `restoreQueues`; vllm-omni's `postprocess_scheduler_output`. It must
   * not change the plan.
   */
  postprocess?(plan: Plan): void;
  /**
   * Receives requests that are ended from outside, before they end, so that it can correct their
   * status.
   */
  finishRequests?(requests: readonly Request[]): void;
  /**
   * Receives each request that has ended, for whatever reason, and each foreign request found in
   * `parked`. It is called once, so that the adapter forgets the request.
   */
  cleanupReceiver?(request: Request): void;
}
