import { IndexedHeap } from '../core/indexed-heap.js';
import type { Request } from './request.js';
import { NO_DEADLINE } from './wait.js';

/**
 * The requests whose present wait has a deadline, the earliest first. So a step asks once, whatever waits, and a wait that
 * ends early leaves nothing behind.
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

  /** Gives a request that has none a deadline. */
  start(request: Request, deadline: number): void {
    request.deadline = deadline;
    this.insertIntoHeap(request);
  }

  /** Takes a request's deadline away; nothing if it has none. */
  stop(request: Request): void {
    if (request.deadlineIndex < 0) return;
    this.removeFromHeap(request);
    request.deadline = NO_DEADLINE;
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
