import {
  type BlockArena,
  CompletionQueue,
  HostLane,
  type Lane,
  type LaneCounts,
  Verdict,
} from '../../../src/transfer.js';

interface Waiting {
  readonly job: number;
  readonly sources: Int32Array;
  readonly targets: Int32Array;
  readonly notBefore: number;
}

/**
 * A lane that copies when the test orders it, and not by itself. The bytes are copied by a host
 * lane, so that arenas count arrivals as ever.
 */
export class SteppedLane implements Lane {
  readonly queue: CompletionQueue;
  readonly #inner: HostLane;
  readonly #ends = new CompletionQueue();
  #waiting: Waiting[] = [];
  #settled = -1;

  constructor(queue: CompletionQueue, source: BlockArena, target: BlockArena) {
    this.queue = queue;
    this.#inner = new HostLane(this.#ends, source, target);
  }

  submit(sources: Int32Array, targets: Int32Array, notBefore = -1): number {
    // A job that a host lane refuses is refused here too, with nothing changed.
    this.#inner.cancel(this.#inner.submit(sources, targets, 2 ** 30));
    this.#ends.drain(() => {});
    const job = this.queue.begin();
    this.#waiting.push({ job, sources: sources.slice(), targets: targets.slice(), notBefore });
    return job;
  }

  settle(step: number): void {
    this.#settled = Math.max(this.#settled, step);
  }

  /** Jobs that can be copied now. */
  get numReady(): number {
    return this.#waiting.filter(({ notBefore }) => notBefore <= this.#settled).length;
  }

  /** Ends the oldest job that can be copied: copies it, unless it is to fail. @returns false if there is none */
  next(verdict: Verdict = Verdict.ok): boolean {
    const at = this.#waiting.findIndex(({ notBefore }) => notBefore <= this.#settled);
    if (at < 0) return false;
    const [{ job, sources, targets }] = this.#waiting.splice(at, 1);
    if (verdict === Verdict.ok) this.#copy(sources, targets);
    this.queue.post(job, verdict);
    return true;
  }

  cancel(job: number): boolean {
    const at = this.#waiting.findIndex((each) => each.job === job);
    if (at < 0) return false;
    this.#waiting.splice(at, 1);
    this.queue.post(job, Verdict.cancelled);
    return true;
  }

  flush(): void {
    while (this.next());
  }

  fence(): void {
    for (const { job } of [...this.#waiting]) this.cancel(job);
  }

  counts(): LaneCounts {
    const pending = this.#waiting.length;
    return { ...this.#inner.counts(), pending, waiting: pending - this.numReady };
  }

  dispose(): void {
    this.#waiting = [];
    this.#inner.dispose();
    this.#ends.dispose();
  }

  #copy(sources: Int32Array, targets: Int32Array): void {
    const job = this.#inner.submit(sources, targets);
    this.#inner.flush(Int32Array.of(job));
    this.#ends.drain(() => {});
  }
}
