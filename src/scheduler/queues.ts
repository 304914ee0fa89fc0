import type { Request } from './request.js';
import { comesBefore, FcfsQueue, PriorityQueue, type RequestQueue } from './request-queue.js';

/**
 * The containers of unfinished requests, as in vLLM: `waiting` may be admitted, `skipped` waits for something else or
 * was passed over, `running` holds those that are computed, in order of admission.
 *
 * Invariant: `request.container` names the one container that holds it, and only this class writes it.
 */
export class Queues {
  readonly waiting: RequestQueue;
  readonly skipped: RequestQueue;
  /** In order of admission. Entries may be removed only through this class. */
  readonly running: Request[] = [];
  readonly #byPriority: boolean;

  constructor(policy: 'fcfs' | 'priority') {
    this.#byPriority = policy === 'priority';
    this.waiting = this.#byPriority ? new PriorityQueue() : new FcfsQueue();
    this.skipped = this.#byPriority ? new PriorityQueue() : new FcfsQueue();
  }

  pushWaiting(request: Request): void {
    request.container = 'waiting';
    this.waiting.push(request);
  }

  /** A preempted request goes to the front, so that it is the next to run again. */
  prependWaiting(request: Request): void {
    request.container = 'waiting';
    this.waiting.prepend(request);
  }

  /** Puts requests, given in admission order, ahead of those skipped earlier. */
  prependSkipped(requests: readonly Request[]): void {
    for (let i = requests.length - 1; i >= 0; i--) {
      requests[i].container = 'skipped';
      this.skipped.prepend(requests[i]);
    }
  }

  pushRunning(request: Request): void {
    request.container = 'running';
    this.running.push(request);
  }

  /** The queue whose head is to be admitted next: skipped requests first (fcfs), the better head (priority). */
  nextQueue(): RequestQueue | null {
    const waiting = this.waiting.peek();
    const skipped = this.skipped.peek();
    if (skipped === null) return waiting === null ? null : this.waiting;
    if (waiting === null || !this.#byPriority) return this.skipped;
    return comesBefore(waiting, skipped) ? this.waiting : this.skipped;
  }

  /** Takes a request out of whichever container holds it. Finding none is not an error. */
  remove(request: Request): void {
    if (request.container === 'running') this.running.splice(this.running.indexOf(request), 1);
    else this.removeWaiting(request);
    request.container = null;
  }

  /**
   * As `remove`, but a running request only loses its mark, so that many can leave `running` in one pass.
   * The caller ends with `sweepRunning`.
   */
  detach(request: Request): void {
    if (request.container !== 'running') this.removeWaiting(request);
    request.container = null;
  }

  /** Drops everything that is not marked as running from `running`, order kept. */
  sweepRunning(): void {
    const running = this.running;
    let kept = 0;
    for (let i = 0; i < running.length; i++) {
      const request = running[i];
      if (request.container === 'running') running[kept++] = request;
    }
    running.length = kept;
  }

  private removeWaiting(request: Request): void {
    if (request.container === 'waiting') this.waiting.remove(request);
    else if (request.container === 'skipped') this.skipped.remove(request);
  }
}
