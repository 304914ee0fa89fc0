// A borrowing adapter: holds requests back, errs, and audits its input.
import type {
  BorrowingAdapter,
  BorrowQueue,
  BorrowQueues,
} from '../../../../src/scheduler/borrow/borrowing-adapter.js';
import type { Request } from '../../../../src/scheduler/request/request.js';
import type { RequestStatus } from '../../../../src/scheduler/request/status.js';
import type { Rng } from '../rng.js';
import type { BorrowerShape } from './draw-borrower.js';

const STATUSES: readonly RequestStatus[] = [
  ...(['WAITING', 'RUNNING', 'PREEMPTED', 'WAITING_FOR_CHUNK', 'WAITING_FOR_REMOTE_KVS'] as const),
  ...(['WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR', 'FINISHED'] as const),
];
/** Requests that it has seen last, ended ones included. */
const KEPT_REQUESTS = 30;

/** The part of its world that a simulated borrower needs. */
export interface BorrowerWorld {
  readonly rng: Rng;
  /** No faults any more. */
  isCalm(): boolean;
  /** Something happened that must not. */
  broke(invariant: string, message: string): void;
  /** The borrower has failed a request, which ends with an error when the next step is planned. */
  failed(handle: number): void;
  /**
   * Ends a request while a step is planned, like code that has the scheduler's own queues; null:
   * requests are not ended so.
   */
  readonly endNow: ((request: Request) => void) | null;
}

/**
 * A borrowing adapter that holds requests up, and does everything wrong now and then. It loses,
 * doubles and misplaces borrowed requests, writes statuses of its own, and throws. It audits the
 * scheduler too. No ended request is in its arrays, each answer is the right one, and it hears of
 * each end once.
 */
export class SimBorrower implements BorrowingAdapter {
  readonly waitingParked: Request[] = [];
  readonly runningParked: Request[] = [];
  readonly parked = [this.waitingParked, this.runningParked];
  /** Handles of the requests that it had taken out for the last step. */
  readonly heldUp = new Set<number>();
  /**
   * The borrower threw when it took requests out, so that all requests that it meant to hold up are
   * held up.
   */
  threwAtProcess = false;
  /** Statuses that it left wrong at the reports of ends. */
  numStale = 0;
  readonly #shape: BorrowerShape;
  readonly #world: BorrowerWorld;
  /** Requests that are out, with the array in which each belongs. */
  readonly #out = new Map<Request, Request[]>();
  readonly #seen: Request[] = [];
  /** Handles of the requests whose ends were reported to it: before, and when they were over. */
  readonly #told = new Set<number>();
  readonly #cleaned = new Set<number>();

  constructor(shape: BorrowerShape, world: BorrowerWorld) {
    this.#shape = shape;
    this.#world = world;
  }

  processPendingChunks(queues: BorrowQueues): void {
    this.#checkParked(queues, 'processes');
    this.heldUp.clear();
    this.#out.clear();
    this.threwAtProcess = false;
    this.#borrow(queues.waiting, this.waitingParked);
    this.#borrow(queues.running, this.runningParked);
    if (this.#world.isCalm()) return;
    if (this.#errs() && this.#out.size > 0) this.#world.endNow?.(this.#world.rng.pick([...this.#out.keys()]));
    if (this.#errs()) this.#park();
    if (this.#errs()) this.#fail(queues);
    this.threwAtProcess = this.#errs();
    if (this.threwAtProcess) throw new Error('planted in processPendingChunks');
  }

  restoreQueues(queues: BorrowQueues): void {
    this.#checkParked(queues, 'restores');
    const { rng } = this.#world;
    if (this.#errs()) this.#borrowLate(queues);
    for (const [queue, other, parked] of [
      [queues.waiting, queues.running, this.waitingParked],
      [queues.running, queues.waiting, this.runningParked],
    ] as const) {
      for (const request of parked.splice(0)) {
        const isMisplaced = this.#errs();
        const into = isMisplaced ? other : queue;
        const isBack = rng.chance(0.5) ? into.pushBack(request) : into.pushFront(request);
        const isRight = this.#out.get(request) === (isMisplaced ? this.#otherThan(parked) : parked);
        this.#out.delete(request);
        if (isBack !== isRight)
          this.#world.broke('I8', `${request.id} was put back, right: ${isRight}, answer: ${isBack}`);
      }
    }
    if (this.#errs()) this.#returnNonsense(queues);
    for (const request of [...queues.waiting, ...queues.running]) if (this.#errs()) this.#restamp(request);
    if (this.#errs()) this.#park();
    if (this.#errs()) throw new Error('planted in restoreQueues');
  }

  postprocess(): void {
    if (this.#errs()) throw new Error('planted in postprocess');
  }

  finishRequests(requests: readonly Request[]): void {
    for (const request of requests) {
      this.#told.add(request.handle);
      if (request.isFinished) this.#world.broke('I5', `it is told late that ${request.id} is about to end`);
      if (request.container === 'lent') continue;
      const isIdle = request.status === 'WAITING_FOR_STREAMING_REQ';
      if (this.#errs()) this.#restamp(request);
      else if (request.status === 'WAITING_FOR_CHUNK')
        request.status = request.container === 'running' ? 'RUNNING' : 'WAITING';
      const isRight = (request.status === 'RUNNING') === (request.container === 'running');
      if (!isRight || (isIdle && request.status !== 'WAITING_FOR_STREAMING_REQ')) this.numStale++;
    }
    if (this.#errs()) throw new Error('planted in finishRequests');
  }

  cleanupReceiver(request: Request): void {
    if (this.#cleaned.has(request.handle))
      this.#world.broke('I5', `it is told twice to forget ${request.id}`);
    this.#cleaned.add(request.handle);
    if (!request.isFinished) this.#world.broke('I5', `it is told to forget ${request.id}, which goes on`);
    if (this.#errs()) throw new Error('planted in cleanupReceiver');
  }

  /** Whether it got the report that somebody was about to end this request. */
  wasTold(handle: number): boolean {
    return this.#told.has(handle);
  }

  /** Whether it got the call to forget this request, which has ended. */
  hasForgotten(handle: number): boolean {
    return this.#cleaned.has(handle);
  }

  /** A request that has ended, and that it has not let go of. */
  zombie(): Request | undefined {
    return this.#seen.find(({ isFinished }) => isFinished);
  }

  #errs(): boolean {
    return !this.#world.isCalm() && this.#world.rng.chance(this.#shape.errs);
  }

  /** I1: whatever it has parked is live. */
  #checkParked({ live }: BorrowQueues, when: string): void {
    for (const request of this.parked.flat()) {
      if (request !== undefined && !request.isFinished && live.get(request.id) === request) continue;
      this.#world.broke('I1', `${request?.id} has ended, and is parked when the adapter ${when}`);
    }
  }

  #borrow(queue: BorrowQueue, parked: Request[]): void {
    const { rng } = this.#world;
    for (const request of queue) {
      this.#see(request);
      if (this.#errs()) this.#restamp(request);
      if (this.#world.isCalm() || !rng.chance(this.#shape.holds)) {
        if (request.status === 'WAITING_FOR_CHUNK' && !this.#errs())
          request.status = parked === this.runningParked ? 'RUNNING' : 'WAITING';
        continue;
      }
      request.status = 'WAITING_FOR_CHUNK';
      if (!queue.remove(request)) this.#world.broke('I8', `${request.id} cannot be taken out`);
      if (queue.remove(request)) this.#world.broke('I8', `${request.id} was taken out twice`);
      this.heldUp.add(request.handle);
      this.#out.set(request, parked);
      if (!this.#errs()) parked.push(request);
      if (this.#errs()) parked.push(request);
    }
  }

  #otherThan(parked: Request[]): Request[] {
    return parked === this.waitingParked ? this.runningParked : this.waitingParked;
  }

  #see(request: Request): void {
    if (this.#seen.includes(request)) return;
    this.#seen.push(request);
    if (this.#seen.length > KEPT_REQUESTS) this.#seen.shift();
  }

  #restamp(request: Request): void {
    if (request.isFinished || request.container === null) return;
    request.status = this.#world.rng.pick(STATUSES);
  }

  /** Parks somebody whom it has seen some time, or nothing at all. */
  #park(): void {
    const { rng } = this.#world;
    const whom = rng.chance(0.2) ? undefined : this.#anybody();
    rng.pick(this.parked).push(whom as Request);
  }

  #fail(queues: BorrowQueues): void {
    const request = this.#anybody();
    if (request === undefined) return;
    const isLive = !request.isFinished && queues.live.get(request.id) === request;
    if (queues.fail(request, 'no chunk came') !== isLive)
      this.#world.broke('I8', `a failure of ${request.id} was taken: ${!isLive}`);
    if (isLive) this.#world.failed(request.handle);
  }

  /** Nothing may be taken out when the step is planned. */
  #borrowLate(queues: BorrowQueues): void {
    for (const queue of [queues.waiting, queues.running])
      for (const request of queue)
        if (queue.remove(request)) this.#world.broke('I8', `${request.id} was taken out too late`);
  }

  #returnNonsense(queues: BorrowQueues): void {
    const { rng } = this.#world;
    const queue = rng.pick([queues.waiting, queues.running]);
    const whom = rng.pick([this.#anybody(), undefined, { id: 'stranger', isFinished: false } as Request]);
    const isOut = whom !== undefined && this.#out.has(whom);
    if (queue.pushBack(whom as Request) && !isOut)
      this.#world.broke('I8', `${whom?.id} was put back, and was not out`);
  }

  #anybody(): Request | undefined {
    return this.#seen.length === 0 ? undefined : this.#world.rng.pick(this.#seen);
  }
}
