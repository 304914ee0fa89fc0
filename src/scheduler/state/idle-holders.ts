import { IndexedHeap } from '../../base/collections/indexed-heap.js';
import type { Request } from '../request/request.js';

/**
 * The idle sessions that may have blocks to give, the longest idle first. A request that needs
 * blocks examines the first session and removes it from the heap. So a session that has given its
 * blocks, or cannot give them now, is examined once, and not at every later need.
 *
 * Invariant: an idle session with blocks that only the session itself uses is in this heap.
 */
export class IdleHolders extends IndexedHeap<Request> {
  /** The session that has been idle for longest, or null. */
  peek(): Request | null {
    return this.heap.length === 0 ? null : this.heap[0];
  }

  /** Adds an idle session. Nothing happens if it is here already. */
  add(request: Request): void {
    if (!this.has(request)) this.insertIntoHeap(request);
  }

  /** Removes a session. Nothing happens if it is not here. */
  drop(request: Request): void {
    if (this.has(request)) this.removeFromHeap(request);
  }

  has(request: Request): boolean {
    return this.heap[request.heapIndex] === request;
  }

  /** `Request.order` grows with every session that becomes idle, so a smaller one has been idle for longer. */
  protected comesBefore(a: Request, b: Request): boolean {
    return a.order < b.order;
  }

  // An idle session is in no queue, so the heap index that the priority queues use is free.
  protected indexOf(request: Request): number {
    return request.heapIndex;
  }

  protected setIndex(request: Request, index: number): void {
    request.heapIndex = index;
  }
}
