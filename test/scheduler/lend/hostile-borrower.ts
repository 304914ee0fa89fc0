import type { BorrowingAdapter, BorrowQueue, BorrowQueues } from '../../../src/borrow.js';
import type { Plan, Request } from '../../../src/index.js';
import type { RequestStatus } from '../../../src/scheduler/request/status.js';
import { Random } from '../../support/driver.js';

const STATUSES = ['WAITING', 'RUNNING', 'PREEMPTED', 'WAITING_FOR_CHUNK', 'FINISHED'] as const;

/** A borrowing adapter that does everything wrong, at random, until it is stopped. */
export class HostileBorrower implements BorrowingAdapter {
  readonly waitingParked: Request[] = [];
  readonly runningParked: Request[] = [];
  readonly parked = [this.waitingParked, this.runningParked];
  /** How often `cleanupReceiver` was called for each request. */
  readonly cleaned = new Map<Request, number>();
  /** From then on it takes nothing. */
  isDone = false;
  readonly #random: Random;
  /** Requests that it has seen, ended ones included. */
  readonly #seen: Request[] = [];

  constructor(seed: number) {
    this.#random = new Random(seed);
  }

  processPendingChunks(queues: BorrowQueues): void {
    if (this.isDone) return;
    this.#borrow(queues.waiting, this.waitingParked);
    this.#borrow(queues.running, this.runningParked);
    this.#misbehave(queues);
  }

  restoreQueues(queues: BorrowQueues): void {
    if (!this.isDone) this.#misbehave(queues);
    this.#putBack(queues, queues.waiting, this.waitingParked);
    this.#putBack(queues, queues.running, this.runningParked);
    if (!this.isDone) this.#misbehave(queues);
  }

  postprocess(_plan: Plan): void {
    if (!this.isDone && this.#random.chance(5)) throw new Error('postprocess');
  }

  finishRequests(requests: readonly Request[]): void {
    for (const request of requests) this.#restamp(request);
    if (!this.isDone && this.#random.chance(5)) throw new Error('finishRequests');
  }

  cleanupReceiver(request: Request): void {
    this.cleaned.set(request, (this.cleaned.get(request) ?? 0) + 1);
    if (!this.isDone && this.#random.chance(5)) throw new Error('cleanupReceiver');
  }

  #borrow(queue: BorrowQueue, parked: Request[]): void {
    for (const request of queue) {
      this.#seen.push(request);
      if (this.#random.chance(20)) this.#restamp(request);
      if (!this.#random.chance(25)) continue;
      queue.remove(request);
      if (!this.#random.chance(10)) parked.push(request);
      if (this.#random.chance(5)) parked.push(request);
    }
    if (this.#random.chance(3)) throw new Error('processPendingChunks');
  }

  #putBack(queues: BorrowQueues, queue: BorrowQueue, parked: Request[]): void {
    for (const request of parked.splice(0)) {
      const into = !this.isDone && this.#random.chance(10) ? this.#either(queues) : queue;
      if (this.#random.chance(50)) into.pushBack(request);
      else into.pushFront(request);
      if (!this.isDone && this.#random.chance(2)) throw new Error('restoreQueues');
    }
  }

  #misbehave(queues: BorrowQueues): void {
    const dice = this.#random.below(100);
    const queue = this.#either(queues);
    if (dice < 5) queue.pushBack(this.#any());
    else if (dice < 10) queue.remove(this.#any());
    else if (dice < 13) queue.pushFront({ id: 'stranger', isFinished: false } as Request);
    else if (dice < 15) queue.pushBack(null as never);
    else if (dice < 17) this.runningParked.push(this.#any());
    else if (dice < 19) this.waitingParked.push(undefined as never);
    else if (dice < 20) queues.fail(this.#any(), 'no chunk came');
  }

  #restamp(request: Request): void {
    if (this.isDone || request.isFinished) return;
    request.status = STATUSES[this.#random.below(STATUSES.length)] as RequestStatus;
  }

  #either({ waiting, running }: BorrowQueues): BorrowQueue {
    return this.#random.chance(50) ? waiting : running;
  }

  #any(): Request {
    return this.#seen[this.#random.below(Math.max(1, this.#seen.length))] as Request;
  }
}
