import type { BorrowingAdapter, BorrowQueue, BorrowQueues } from '../../../src/borrow.js';
import type { Plan, Request } from '../../../src/index.js';

/** A borrowing adapter that parks the requests with given ids, and records its calls. */
export class ScriptedBorrower implements BorrowingAdapter {
  readonly waitingParked: Request[] = [];
  readonly runningParked: Request[] = [];
  readonly parked = [this.waitingParked, this.runningParked];
  /** Ids of the requests that are held up. */
  readonly held = new Set<string>();
  /** `process`, `restore`, `plan ID...`, `finish ID...`, `cleanup ID`, in order. */
  readonly calls: string[] = [];
  /** Further actions at the end of processing, and of restoring. */
  onProcess: (queues: BorrowQueues) => void = () => {};
  onRestore: (queues: BorrowQueues) => void = () => {};
  onFinish: (requests: readonly Request[]) => void = () => {};
  onCleanup: (request: Request) => void = () => {};

  processPendingChunks(queues: BorrowQueues): void {
    this.calls.push('process');
    this.#borrow(queues.waiting, 'WAITING', this.waitingParked);
    this.#borrow(queues.running, 'RUNNING', this.runningParked);
    this.onProcess(queues);
  }

  restoreQueues(queues: BorrowQueues): void {
    this.calls.push('restore');
    for (const request of this.waitingParked.splice(0)) queues.waiting.pushBack(request);
    for (const request of this.runningParked.splice(0)) queues.running.pushBack(request);
    this.onRestore(queues);
  }

  postprocess({ requests, numRequests }: Plan): void {
    this.calls.push(['plan', ...requests.slice(0, numRequests).map(({ id }) => id)].join(' '));
  }

  finishRequests(requests: readonly Request[]): void {
    this.calls.push(['finish', ...requests.map(({ id }) => id)].join(' '));
    for (const request of requests) {
      if (request.status !== 'WAITING_FOR_CHUNK') continue;
      request.status = request.container === 'running' ? 'RUNNING' : 'WAITING';
    }
    this.onFinish(requests);
  }

  cleanupReceiver(request: Request): void {
    this.calls.push(`cleanup ${request.id}`);
    this.onCleanup(request);
  }

  /** How often `cleanupReceiver` was called for this id. */
  timesCleaned(id: string): number {
    return this.calls.filter((call) => call === `cleanup ${id}`).length;
  }

  #borrow(queue: BorrowQueue, target: 'WAITING' | 'RUNNING', parked: Request[]): void {
    for (const request of queue) {
      if (!this.held.has(request.id)) {
        if (request.status === 'WAITING_FOR_CHUNK') request.status = target;
        continue;
      }
      request.status = 'WAITING_FOR_CHUNK';
      queue.remove(request);
      parked.push(request);
    }
  }
}
