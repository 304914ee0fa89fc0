import { show } from '../../base/errors.js';
import type { AskedBorrower } from '../borrow/ask-borrower.js';
import type { BorrowQueue, BorrowQueues } from '../borrow/borrowing-adapter.js';
import type { Plan } from '../plan/plan.js';
import type { Request } from '../request/request.js';
import { isBlocked } from '../request/status.js';
import { isLive } from '../state/guards.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { boundaryGuards } from './boundary-guards.js';

/**
 * The requests that a borrowing adapter borrows in one step, and the queues that it sees meanwhile.
 * The adapter may be wrong or hostile: whatever it does, each live request is in exactly one
 * container afterwards, with a matching status.
 */
export class Loan implements BorrowQueues {
  readonly waiting: BorrowQueue;
  readonly running: BorrowQueue;
  readonly #s: SchedulerState;
  readonly #borrower: AskedBorrower;
  /** Requests that wait for a chunk, and that the scheduler kept back because the adapter threw. */
  readonly #keptBack = new Set<Request>();
  /**
   * Requests of `skipped` that wait for none of the scheduler's own events, as they were before the
   * adapter was called.
   */
  #skipped: readonly Request[] = [];
  #phase: 'taking' | 'planning' | 'returning' | 'over' = 'planning';

  constructor(s: SchedulerState, borrower: AskedBorrower) {
    this.#s = s;
    this.#borrower = borrower;
    this.waiting = new LoanQueue(this, 'waiting', () => this.#waitingNow());
    this.running = new LoanQueue(this, 'running', () => [...s.queues.running]);
  }

  get live(): ReadonlyMap<string, Request> {
    return this.#s.requests;
  }

  /** Has the adapter borrow its requests, before the step is planned. */
  borrow(): void {
    boundaryGuards.purgeAtProcess(this.#s);
    this.#skipped = this.#skippedNow();
    this.#phase = 'taking';
    const isDone = this.#borrower.askProcess(this);
    this.#phase = 'planning';
    if (!isDone) this.#keepBack();
    this.#settleStatuses(false);
  }

  /**
   * Lets the adapter put them back, and restores requests that the adapter has lost. Then reports
   * the plan to it.
   */
  giveBack(plan: Plan): void {
    const { queues, anomalies } = this.#s;
    for (const request of this.#keptBack) queues.putBack(request, false);
    boundaryGuards.purgeAtRestore(this.#s);
    // Planning has passed over some requests, and some wait for a load by now.
    this.#skipped = [...this.#skippedNow(), ...queues.lent.keys()];
    this.#phase = 'returning';
    this.#borrower.askRestore(this);
    this.#phase = 'over';
    for (const request of [...queues.lent.keys()]) {
      queues.putBack(request, false);
      anomalies.report('lost-request', `request ${request.id} was taken out and not put back`, request);
    }
    this.#settleStatuses(true);
    this.#borrower.tellPlan(plan);
  }

  fail(request: Request, why: string): boolean {
    if (!this.isKnown(request)) return false;
    request.failure ??= typeof why === 'string' ? why : 'its borrowing adapter failed it';
    this.#s.doomed.push(request);
    return true;
  }

  /** Whether this is an unfinished request of the scheduler. */
  isKnown(request: Request): boolean {
    return typeof request === 'object' && request !== null && isLive(this.#s.requests, request);
  }

  /** @internal Takes a request out of one of the two queues. */
  lend(request: Request, from: 'waiting' | 'running', holds: boolean): boolean {
    if (holds && this.#phase === 'taking') {
      this.#s.queues.lend(request);
      return true;
    }
    const why = holds ? 'was taken out when nothing may be' : `is not in ${from}`;
    this.#refuse(request, `${why}: remove`);
    return false;
  }

  /** @internal Puts a request back. */
  putBack(request: Request, into: 'waiting' | 'running', atFront: boolean): boolean {
    const { queues, anomalies } = this.#s;
    const isOpen = this.#phase === 'taking' || this.#phase === 'returning';
    const from = isOpen && this.isKnown(request) ? queues.lent.get(request) : undefined;
    if (from === undefined) {
      if (isOpen && !this.isKnown(request))
        anomalies.report('purged-untracked', `${nameOf(request)} was put back and is not live`);
      else this.#refuse(request, `is not out: put back into ${into}`);
      return false;
    }
    queues.putBack(request, atFront);
    if ((from === 'running') === (into === 'running')) return true;
    this.#refuse(request, `came from ${from}: put back into ${into}`);
    return false;
  }

  #refuse(request: Request, what: string): void {
    const about = this.isKnown(request) ? request : null;
    this.#s.anomalies.report('misplaced-request', `${nameOf(request)} ${what}`, about);
  }

  #waitingNow(): Request[] {
    return [...this.#s.queues.line()].filter(({ status }) => !isBlocked(status));
  }

  #skippedNow(): Request[] {
    return this.#s.queues.skipped.toArray().filter(({ status }) => !isBlocked(status));
  }

  /**
   * Keeps back requests that wait for a chunk in this step, because the adapter threw before it may
   * have processed them.
   */
  #keepBack(): void {
    for (const request of [...this.#s.queues.running, ...this.#waitingNow()]) {
      if (request.status !== 'WAITING_FOR_CHUNK') continue;
      this.#s.queues.lend(request);
      this.#keptBack.add(request);
    }
  }

  /**
   * Corrects the statuses that the adapter wrote so that they match the queues.
   * @param mayWait whether a request may wait for a chunk: between steps, but not while one is
   * planned
   */
  #settleStatuses(mayWait: boolean): void {
    const { running, waiting } = this.#s.queues;
    for (const request of running) if (request.status !== 'RUNNING') this.#settle(request, mayWait);
    for (const queue of [waiting.toArray(), this.#skipped])
      for (const request of queue) this.#settle(request, mayWait);
  }

  #settle(request: Request, mayWait: boolean): void {
    const { status, container } = request;
    if (container === null || container === 'lent' || (mayWait && status === 'WAITING_FOR_CHUNK')) return;
    if (container === 'running' && status === 'RUNNING') return;
    const fits = container === 'running' ? 'RUNNING' : waitingStatus(request);
    request.status = fits;
    // An adapter that does not know of preemptions writes WAITING, which is harmless.
    if (status === fits || (status === 'WAITING' && fits === 'PREEMPTED')) return;
    const detail = `the borrowing adapter left request ${request.id} ${status} in ${container}`;
    this.#s.anomalies.report('realigned-status', detail, request);
  }
}

/** One queue as the adapter sees it. */
class LoanQueue implements BorrowQueue {
  readonly #loan: Loan;
  readonly #name: 'waiting' | 'running';
  readonly #read: () => Request[];

  constructor(loan: Loan, name: 'waiting' | 'running', read: () => Request[]) {
    this.#loan = loan;
    this.#name = name;
    this.#read = read;
  }

  get length(): number {
    return this.#read().length;
  }

  [Symbol.iterator](): Iterator<Request> {
    return this.#read()[Symbol.iterator]();
  }

  has(request: Request): boolean {
    if (!this.#loan.isKnown(request)) return false;
    const { container } = request;
    if (this.#name === 'running') return container === 'running';
    // Requests that are set apart are not part of the line. The line is searched, because only few
    // calls ask this.
    return container === 'waiting' || (container === 'skipped' && this.#read().includes(request));
  }

  remove(request: Request): boolean {
    return this.#loan.lend(request, this.#name, this.has(request));
  }

  pushBack(request: Request): boolean {
    return this.#loan.putBack(request, this.#name, false);
  }

  pushFront(request: Request): boolean {
    return this.#loan.putBack(request, this.#name, true);
  }
}

/** The status of a request that waits to be admitted. A session may wait with a new chunk after a preemption. */
function waitingStatus({ session, status, numPreemptions }: Request): 'WAITING' | 'PREEMPTED' {
  if (numPreemptions === 0 || (session !== null && status === 'WAITING')) return 'WAITING';
  return 'PREEMPTED';
}

function nameOf(request: unknown): string {
  const isObject = typeof request === 'object' && request !== null;
  return isObject ? `request ${show((request as { id?: unknown }).id)}` : show(request);
}
