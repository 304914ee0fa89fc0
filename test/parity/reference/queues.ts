import type { ReferenceRequest } from './request.js';

/** vLLM's order under policy priority. */
function byPriority(a: ReferenceRequest, b: ReferenceRequest): number {
  const [p, q] = [a.input, b.input];
  return p.priority - q.priority || p.arrivalTime - q.arrivalTime || (p.id < q.id ? -1 : 1);
}

/** The two queues that requests without connector, grammar or session can be in. */
export class ReferenceQueues {
  readonly waiting: ReferenceRequest[] = [];
  readonly running: ReferenceRequest[] = [];

  constructor(private readonly policy: 'fcfs' | 'priority') {}

  push(request: ReferenceRequest): void {
    this.waiting.push(request);
    this.#sort();
  }

  /** From `running` to the front of `waiting`. */
  requeue(request: ReferenceRequest): void {
    this.running.splice(this.running.indexOf(request), 1);
    this.waiting.unshift(request);
    this.#sort();
  }

  /** Who is preempted next: the latest admitted, or the first of the least important. */
  victim(): ReferenceRequest {
    if (this.policy === 'fcfs') return this.running[this.running.length - 1];
    return this.running.reduce((worst, request) => {
      const [a, b] = [request.input, worst.input];
      return (a.priority - b.priority || a.arrivalTime - b.arrivalTime) > 0 ? request : worst;
    });
  }

  /** Drops what has finished. */
  sweep(): void {
    for (const queue of [this.waiting, this.running]) {
      queue.splice(0, queue.length, ...queue.filter((request) => !request.isFinished));
    }
  }

  #sort(): void {
    if (this.policy === 'priority') this.waiting.sort(byPriority);
  }
}
