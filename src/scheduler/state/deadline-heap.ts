import { IndexedHeap } from '../../base/collections/indexed-heap.js';
import type { Request } from '../request/request.js';
import { NO_DEADLINE } from '../request/wait.js';

/**
 * The requests that have a deadline, the earliest first. So a step checks only the earliest one,
 * however many wait, and a wait that ends early leaves nothing behind. A request has up to three
 * deadlines: that of its present wait, that of its place in the queue, and its own (`timeoutMs`).
 *
 * Invariant: `request.deadline` is the earliest of the three, and the request is in this heap
 * exactly if that is finite.
 */
export class DeadlineHeap extends IndexedHeap<Request> {
  get size(): number {
    return this.heap.length;
  }

  /** The earliest deadline, in milliseconds of the scheduler's clock; infinite if there is none. */
  get next(): number {
    return this.heap.length === 0 ? NO_DEADLINE : this.heap[0].deadline;
  }

  /** The request with the earliest deadline if that is over, otherwise null. */
  expired(now: number): Request | null {
    return this.next <= now ? this.heap[0] : null;
  }

  /** Sets the deadline of a request's present wait, in place of the one before. `NO_DEADLINE`: no limit. */
  limitWait(request: Request, deadline: number): void {
    request.waitDeadline = deadline;
    this.#place(request);
  }

  /** Sets the time by which a request must have left the queue. `NO_DEADLINE`: no limit. */
  limitQueue(request: Request, deadline: number): void {
    request.queueDeadline = deadline;
    this.#place(request);
  }

  /**
   * Sets the time by which a request must end; for a session, its answer to the present chunk.
   * `NO_DEADLINE`: no limit.
   */
  limitWhole(request: Request, deadline: number): void {
    request.wholeDeadline = deadline;
    this.#place(request);
  }

  /** Ends the deadline of a request's wait. Nothing happens if the wait had none. */
  stop(request: Request): void {
    if (request.waitDeadline !== NO_DEADLINE) this.limitWait(request, NO_DEADLINE);
  }

  /** Ends all deadlines of a request. */
  stopAll(request: Request): void {
    request.waitDeadline = NO_DEADLINE;
    request.queueDeadline = NO_DEADLINE;
    request.wholeDeadline = NO_DEADLINE;
    this.#place(request);
  }

  /** Every request that has a deadline, in the order of the heap. */
  get requests(): readonly Request[] {
    return this.heap;
  }

  /** Whether the request is at the index that it names, and its parent in the heap has no later deadline. */
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
