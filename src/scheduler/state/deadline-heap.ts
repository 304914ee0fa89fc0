import { IndexedHeap } from '../../base/indexed-heap.js';
import type { Request } from '../request/request.js';
import { NO_DEADLINE } from '../request/wait.js';

/**
 * The requests that have a deadline, the earliest first. So a step asks once, whatever waits, and a wait that ends early leaves
 * nothing behind. A request has up to three: that of its present wait, that of its place in the queue, and its own.
 *
 * Invariant: `request.deadline` is the earliest of the three, and the request stands here exactly if that is finite.
 */
export class DeadlineHeap extends IndexedHeap<Request> {
  get size(): number {
    return this.heap.length;
  }

  /** The earliest deadline; infinite if there is none. */
  get next(): number {
    return this.heap.length === 0 ? NO_DEADLINE : this.heap[0].deadline;
  }

  /** The request with the earliest deadline, if that is over. */
  expired(now: number): Request | null {
    return this.next <= now ? this.heap[0] : null;
  }

  /** Limits the present wait of a request, in place of what limited it before. `NO_DEADLINE`: no longer. */
  limitWait(request: Request, deadline: number): void {
    request.waitDeadline = deadline;
    this.#place(request);
  }

  /** Limits how long a request stands in the queue. */
  limitQueue(request: Request, deadline: number): void {
    request.queueDeadline = deadline;
    this.#place(request);
  }

  /** Limits how long a request takes as a whole; of a session the answer to a chunk. */
  limitWhole(request: Request, deadline: number): void {
    request.wholeDeadline = deadline;
    this.#place(request);
  }

  /** The wait of a request is over; nothing if it had no deadline. */
  stop(request: Request): void {
    if (request.waitDeadline !== NO_DEADLINE) this.limitWait(request, NO_DEADLINE);
  }

  /** Takes all deadlines of a request away. */
  stopAll(request: Request): void {
    request.waitDeadline = NO_DEADLINE;
    request.queueDeadline = NO_DEADLINE;
    request.wholeDeadline = NO_DEADLINE;
    this.#place(request);
  }

  /** Every request that has a deadline, in no order. */
  get requests(): readonly Request[] {
    return this.heap;
  }

  /** Whether the request stands where it says, and behind none that ends later. */
  isInPlace(request: Request): boolean {
    const index = request.deadlineIndex;
    if (this.heap[index] !== request) return false;
    return index === 0 || this.heap[(index - 1) >> 1].deadline <= request.deadline;
  }

  #place(request: Request): void {
    const { waitDeadline, queueDeadline, wholeDeadline } = request;
    const earliest = Math.min(waitDeadline, queueDeadline, wholeDeadline);
    if (earliest === request.deadline) return;
    if (request.deadlineIndex >= 0) this.removeFromHeap(request);
    request.deadline = earliest;
    if (earliest !== NO_DEADLINE) this.insertIntoHeap(request);
  }

  protected comesBefore(a: Request, b: Request): boolean {
    return a.deadline < b.deadline;
  }

  protected indexOf(request: Request): number {
    return request.deadlineIndex;
  }

  protected setIndex(request: Request, index: number): void {
    request.deadlineIndex = index;
  }
}
