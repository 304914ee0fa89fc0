// The queues of the reference scheduler, and the order under policy `priority`.
import { byCodePoints } from '../code-points.js';
import type { ReferenceRequest } from './request.js';

/** vLLM's order under policy priority. */
function byPriority(a: ReferenceRequest, b: ReferenceRequest): number {
  return a.input.priority - b.input.priority || a.arrivalTime - b.arrivalTime || byCodePoints(a.id, b.id);
}

/** The queues of a scheduler. */
export class ReferenceQueues {
  readonly waiting: ReferenceRequest[] = [];
  /** Blocked, or passed over. */
  readonly skipped: ReferenceRequest[] = [];
  readonly running: ReferenceRequest[] = [];

  constructor(private readonly policy: 'fcfs' | 'priority') {}

  /** The queue of a request depends on its wait. */
  push(request: ReferenceRequest): void {
    const isBlocked = request.status.startsWith('WAITING_FOR');
    (isBlocked ? this.skipped : this.waiting).push(request);
    this.sort();
  }

  /** From `running` to the front of `waiting`. */
  requeue(request: ReferenceRequest): void {
    this.running.splice(this.running.indexOf(request), 1);
    this.waiting.unshift(request);
    this.sort();
  }

  /** The queue whose head is next: the queue of skipped requests first, or the better head. */
  next(): ReferenceRequest[] | undefined {
    const { waiting, skipped } = this;
    if (waiting.length === 0 || skipped.length === 0)
      return [skipped, waiting].find(({ length }) => length > 0);
    return this.policy === 'fcfs' || byPriority(skipped[0], waiting[0]) < 0 ? skipped : waiting;
  }

  /** The request to preempt next: the latest admitted, or the first of the least important. */
  victim(): ReferenceRequest {
    if (this.policy === 'fcfs') return this.running[this.running.length - 1];
    return this.running.reduce((worst, request) => {
      const priority = request.input.priority - worst.input.priority;
      return (priority || request.arrivalTime - worst.arrivalTime) > 0 ? request : worst;
    });
  }

  /** Drops what has finished. */
  sweep(): void {
    for (const queue of [this.waiting, this.skipped, this.running]) {
      queue.splice(0, queue.length, ...queue.filter((request) => !request.isFinished));
    }
  }

  /** To be called when an arrival has changed, too. */
  sort(): void {
    if (this.policy === 'fcfs') return;
    this.waiting.sort(byPriority);
    this.skipped.sort(byPriority);
  }
}
