import type { Request } from './request.js';
import { NO_DEADLINE } from './wait.js';

/**
 * The requests whose present wait has a deadline, the earliest first: a binary heap in which each request knows its
 * index. So a step asks once, whatever waits, and a wait that ends early leaves nothing behind.
 */
export class DeadlineHeap {
  readonly #heap: Request[] = [];

  get size(): number {
    return this.#heap.length;
  }

  /** The earliest deadline; infinite if there is none. */
  get next(): number {
    return this.#heap.length === 0 ? NO_DEADLINE : this.#heap[0].deadline;
  }

  /** The request with the earliest deadline, if that is over. */
  expired(now: number): Request | null {
    return this.next <= now ? this.#heap[0] : null;
  }

  /** Gives a request that has none a deadline. */
  start(request: Request, deadline: number): void {
    request.deadline = deadline;
    this.#heap.push(request);
    this.#siftUp(request, this.#heap.length - 1);
  }

  /** Takes a request's deadline away; nothing if it has none. */
  stop(request: Request): void {
    const index = request.deadlineIndex;
    if (index < 0) return;
    request.deadline = NO_DEADLINE;
    request.deadlineIndex = -1;
    const last = this.#heap.pop() as Request;
    if (last === request) return;
    if (index > 0 && last.deadline < this.#heap[(index - 1) >> 1].deadline) this.#siftUp(last, index);
    else this.#siftDown(last, index);
  }

  /** Every request that has a deadline, in no order. */
  get requests(): readonly Request[] {
    return this.#heap;
  }

  /** Whether the request stands where it says, and behind none that ends later. */
  isInPlace(request: Request): boolean {
    const index = request.deadlineIndex;
    if (this.#heap[index] !== request) return false;
    return index === 0 || this.#heap[(index - 1) >> 1].deadline <= request.deadline;
  }

  #siftUp(request: Request, from: number): void {
    let index = from;
    while (index > 0) {
      const parent = this.#heap[(index - 1) >> 1];
      if (parent.deadline <= request.deadline) break;
      this.#place(parent, index);
      index = (index - 1) >> 1;
    }
    this.#place(request, index);
  }

  #siftDown(request: Request, from: number): void {
    const heap = this.#heap;
    let index = from;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && heap[child + 1].deadline < heap[child].deadline) child++;
      if (heap[child].deadline >= request.deadline) break;
      this.#place(heap[child], index);
      index = child;
    }
    this.#place(request, index);
  }

  #place(request: Request, index: number): void {
    this.#heap[index] = request;
    request.deadlineIndex = index;
  }
}
