import { IndexedHeap } from '../../base/collections/indexed-heap.js';
import { compareIds } from '../request/id-order.js';
import type { Request } from '../request/request.js';

/**
 * A queue of requests that wait to be admitted. A request is in one queue at most, linked through its own fields, so
 * that it can leave from anywhere without a search.
 */
export interface RequestQueue {
  readonly length: number;
  /** The request to be admitted next, or null. */
  peek(): Request | null;
  /** Adds a request: at the back (fcfs), or at the place that its order gives it (priority). */
  push(request: Request): void;
  /** Adds a request: at the front (fcfs), or at the place that its order gives it (priority). */
  prepend(request: Request): void;
  /**
   * Adds a request: at the place of its `Request.order` (fcfs), or at the place that its order gives it (priority).
   */
  insert(request: Request): void;
  /** Removes a request. It must be in this queue. */
  remove(request: Request): void;
  /** All requests in admission order; allocates. */
  toArray(): Request[];
  /**
   * How many requests are before a request of this queue; `most` if there are that many or more.
   * Examines no more than `most`.
   */
  countAhead(request: Request, most: number): number;
}

/** First come, first served: a doubly linked list through the requests. */
export class FcfsQueue implements RequestQueue {
  #head: Request | null = null;
  #tail: Request | null = null;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  peek(): Request | null {
    return this.#head;
  }

  push(request: Request): void {
    this.#link(this.#tail, request, null);
  }

  prepend(request: Request): void {
    this.#link(null, request, this.#head);
  }

  insert(request: Request): void {
    let prev = this.#tail;
    while (prev !== null && prev.order > request.order) prev = prev.prev;
    this.#link(prev, request, prev === null ? this.#head : prev.next);
  }

  remove(request: Request): void {
    const { prev, next } = request;
    if (prev === null) this.#head = next;
    else prev.next = next;
    if (next === null) this.#tail = prev;
    else next.prev = prev;
    request.prev = null;
    request.next = null;
    this.#length--;
  }

  toArray(): Request[] {
    const all: Request[] = [];
    for (let request = this.#head; request !== null; request = request.next) all.push(request);
    return all;
  }

  countAhead(request: Request, most: number): number {
    let ahead = 0;
    for (let each = request.prev; each !== null && ahead < most; each = each.prev) ahead++;
    return ahead;
  }

  #link(prev: Request | null, request: Request, next: Request | null): void {
    request.prev = prev;
    request.next = next;
    if (prev === null) this.#head = request;
    else prev.next = request;
    if (next === null) this.#tail = request;
    else next.prev = request;
    this.#length++;
  }
}

/**
 * vLLM's order of requests under policy `priority`: priority, then arrival, then external id by code points. Ids of
 * unfinished requests are unique, so the order is total and does not depend on how the heap was built.
 */
export function comesBefore(a: Request, b: Request): boolean {
  if (a.priority !== b.priority) return a.priority < b.priority;
  if (a.arrivalTime !== b.arrivalTime) return a.arrivalTime < b.arrivalTime;
  return compareIds(a.id, b.id) < 0;
}

/** A queue in the order of `comesBefore`. */
export class PriorityQueue extends IndexedHeap<Request> implements RequestQueue {
  get length(): number {
    return this.heap.length;
  }

  peek(): Request | null {
    return this.heap.length === 0 ? null : this.heap[0];
  }

  push(request: Request): void {
    this.insertIntoHeap(request);
  }

  prepend(request: Request): void {
    this.insertIntoHeap(request);
  }

  insert(request: Request): void {
    this.insertIntoHeap(request);
  }

  remove(request: Request): void {
    this.removeFromHeap(request);
  }

  toArray(): Request[] {
    return [...this.heap].sort((a, b) => (comesBefore(a, b) ? -1 : 1));
  }

  /**
   * In a heap no item below another comes before it. So the search stops at each item that does not
   * come before the request.
   */
  countAhead(request: Request, most: number): number {
    const { heap } = this;
    const indices = [0];
    let ahead = 0;
    for (let next = indices.pop(); next !== undefined && ahead < most; next = indices.pop()) {
      if (next >= heap.length || !comesBefore(heap[next], request)) continue;
      ahead++;
      indices.push(2 * next + 1, 2 * next + 2);
    }
    return ahead;
  }

  protected comesBefore(a: Request, b: Request): boolean {
    return comesBefore(a, b);
  }

  protected indexOf(request: Request): number {
    return request.heapIndex;
  }

  protected setIndex(request: Request, index: number): void {
    request.heapIndex = index;
  }
}
