import {
  type BlockArena,
  type CompletionQueue,
  type Lane,
  type LaneCounts,
  Verdict,
} from '../../../src/transfer.js';

/** How long copies take. */
export interface CopyCost {
  /** Bytes of a block that the model would have. The arenas of a simulation hold fewer. */
  readonly bytesPerBlock: number;
  readonly bytesPerSecond: number;
  /** Milliseconds that each job takes besides. */
  readonly jobMs: number;
}

interface Job {
  readonly job: number;
  readonly numBlocks: number;
  readonly notBefore: number;
}

/** A lane that copies nothing and takes virtual time: one job after the other, each as long as its bytes take. */
export class VirtualLane implements Lane {
  readonly queue: CompletionQueue;
  /** Bytes that were copied so far. */
  bytes = 0;
  readonly #now: () => number;
  readonly #cost: CopyCost;
  #waiting: Job[] = [];
  readonly #running: { job: number; dueMs: number }[] = [];
  #busyUntilMs = 0;
  #settled = -1;

  constructor(
    queue: CompletionQueue,
    _source: BlockArena,
    _target: BlockArena,
    now: () => number,
    cost: CopyCost,
  ) {
    this.queue = queue;
    this.#now = now;
    this.#cost = cost;
  }

  /** When the next job ends; Infinity = none is being copied. */
  get nextMs(): number {
    return this.#running[0]?.dueMs ?? Number.POSITIVE_INFINITY;
  }

  /** Ends the jobs that are due. */
  advance(): void {
    while (this.nextMs <= this.#now())
      this.queue.post((this.#running.shift() as { job: number }).job, Verdict.ok);
  }

  submit(sources: Int32Array, _targets: Int32Array, notBefore = -1): number {
    const job = { job: this.queue.begin(), numBlocks: sources.length, notBefore };
    if (notBefore <= this.#settled) this.#start(job);
    else this.#waiting.push(job);
    return job.job;
  }

  settle(step: number): void {
    this.#settled = Math.max(this.#settled, step);
    const ready = this.#waiting.filter(({ notBefore }) => notBefore <= this.#settled);
    if (ready.length === 0) return;
    this.#waiting = this.#waiting.filter(({ notBefore }) => notBefore > this.#settled);
    for (const job of ready) this.#start(job);
  }

  cancel(): boolean {
    return false;
  }

  flush(): void {}

  fence(): void {}

  counts(): LaneCounts {
    const waiting = this.#waiting.length;
    return { pending: waiting + this.#running.length, waiting, bytes: this.bytes, copies: 0 };
  }

  dispose(): void {}

  #start({ job, numBlocks }: Job): void {
    const { bytesPerBlock, bytesPerSecond, jobMs } = this.#cost;
    const bytes = numBlocks * bytesPerBlock;
    this.bytes += bytes;
    this.#busyUntilMs = Math.max(this.#busyUntilMs, this.#now()) + jobMs + (1000 * bytes) / bytesPerSecond;
    this.#running.push({ job, dueMs: this.#busyUntilMs });
  }
}
