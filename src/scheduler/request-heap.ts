import type { Request } from './request.js';

/**
 * A binary heap of requests, each of which knows its index: the first one is found, and any one leaves, without a search.
 * The order is whatever `comesBefore` says of two of them.
 */
export abstract class RequestHeap {
  protected readonly heap: Request[] = [];

  /** Whether `a` has to stand in front of `b`. */
  protected abstract comesBefore(a: Request, b: Request): boolean;
  /** Where the request stands, -1 if it is not in this heap. */
  protected abstract indexOf(request: Request): number;
  protected abstract setIndex(request: Request, index: number): void;

  /** Adds a request that is not in this heap. */
  protected insertIntoHeap(request: Request): void {
    this.heap.push(request);
    this.#siftUp(request, this.heap.length - 1);
  }

  /** Takes out a request of this heap. What it is ordered by must still be what it was. */
  protected removeFromHeap(request: Request): void {
    const index = this.indexOf(request);
    const last = this.heap.pop() as Request;
    this.setIndex(request, -1);
    if (last === request) return;
    if (index > 0 && this.comesBefore(last, this.heap[(index - 1) >> 1])) this.#siftUp(last, index);
    else this.#siftDown(last, index);
  }

  #siftUp(request: Request, from: number): void {
    let index = from;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!this.comesBefore(request, this.heap[parent])) break;
      this.#place(this.heap[parent], index);
      index = parent;
    }
    this.#place(request, index);
  }

  #siftDown(request: Request, from: number): void {
    const { heap } = this;
    let index = from;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && this.comesBefore(heap[child + 1], heap[child])) child++;
      if (!this.comesBefore(heap[child], request)) break;
      this.#place(heap[child], index);
      index = child;
    }
    this.#place(request, index);
  }

  #place(request: Request, index: number): void {
    this.heap[index] = request;
    this.setIndex(request, index);
  }
}
