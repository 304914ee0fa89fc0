import { IndexedHeap } from '../../base/indexed-heap.js';
import type { Request } from '../request/request.js';

/**
 * The idle sessions that may have blocks to give, the longest idle first. Whoever takes blocks looks at the first one and takes it
 * out, so that one that has given its blocks, or cannot give them now, is looked at once and not by everybody who comes later.
 *
 * Invariant: an idle session that has blocks, which nothing but itself uses, stands here.
 */
export class IdleHolders extends IndexedHeap<Request> {
  /** The one that has been idle for longest, or null. */
  peek(): Request | null {
    return this.heap.length === 0 ? null : this.heap[0];
  }

  /** Adds an idle session; nothing if it stands here. */
  add(request: Request): void {
    if (!this.has(request)) this.insertIntoHeap(request);
  }

  /** Takes a session out; nothing if it does not stand here. */
  drop(request: Request): void {
    if (this.has(request)) this.removeFromHeap(request);
  }

  has(request: Request): boolean {
    return this.heap[request.heapIndex] === request;
  }

  /** `order` grows with every session that becomes idle. */
  protected comesBefore(a: Request, b: Request): boolean {
    return a.order < b.order;
  }

  // An idle session stands in no queue, so the index of the priority queues is free.
  protected indexOf(request: Request): number {
    return request.heapIndex;
  }

  protected setIndex(request: Request, index: number): void {
    request.heapIndex = index;
  }
}
