// Lanes that copy when a test says so.
import {
  type BlockArena,
  type CompletionQueue,
  HostLane,
  type Lane,
  type LaneCounts,
  CompletionQueue as Queue,
  Verdict,
} from '../../../src/transfer.js';

interface Job {
  readonly job: number;
  readonly sources: Int32Array;
  readonly targets: Int32Array;
  readonly notBefore: number;
  /** The job was cancelled, and has not ended yet. */
  isCancelled: boolean;
}

/**
 * Lanes that copy only when a test orders it: each job at once and whole, by a lane of the host.
 */
export class LateLanes {
  readonly #lanes = new Set<LateLane>();

  readonly make = (queue: CompletionQueue, source: BlockArena, target: BlockArena): Lane => {
    const lane = new LateLane(queue, source, target, this.#lanes);
    this.#lanes.add(lane);
    return lane;
  };

  /** Lanes that have a job to carry out. */
  get numReady(): number {
    return [...this.#lanes].filter((lane) => lane.isReady).length;
  }

  /** Carries out the oldest job of one lane. @param pick chooses among so many lanes. @returns false if none has a job */
  runOne(pick: (count: number) => number): boolean {
    const ready = [...this.#lanes].filter((lane) => lane.isReady);
    if (ready.length === 0) return false;
    ready[pick(ready.length)].run();
    return true;
  }

  runAll(): void {
    while (this.runOne(() => 0));
  }
}

/** See `LateLanes`. */
class LateLane implements Lane {
  readonly queue: CompletionQueue;
  readonly #done = new Queue({ capacity: 4 });
  readonly #inner: HostLane;
  readonly #all: Set<LateLane>;
  #jobs: Job[] = [];
  #settled = -1;
  #bytes = 0;
  readonly #bytesPerBlock: number;

  constructor(queue: CompletionQueue, source: BlockArena, target: BlockArena, all: Set<LateLane>) {
    this.queue = queue;
    this.#all = all;
    this.#inner = new HostLane(this.#done, source, target);
    this.#bytesPerBlock = source.bytesPerBlock;
  }

  get isReady(): boolean {
    return this.#jobs.some((job) => this.#mayRun(job));
  }

  submit(sources: Int32Array, targets: Int32Array, notBefore = -1): number {
    const job = this.queue.begin();
    this.#jobs.push({
      job,
      sources: sources.slice(),
      targets: targets.slice(),
      notBefore,
      isCancelled: false,
    });
    return job;
  }

  /** Carries out the oldest job that is ready. */
  run(): void {
    const at = this.#jobs.findIndex((job) => this.#mayRun(job));
    const [{ job, sources, targets, isCancelled }] = this.#jobs.splice(at, 1);
    if (isCancelled) {
      this.queue.post(job, Verdict.cancelled);
      return;
    }
    this.#inner.flush(Int32Array.of(this.#inner.submit(sources, targets)));
    this.#done.drain((_, verdict) => this.queue.post(job, verdict));
    this.#bytes += sources.length * this.#bytesPerBlock;
  }

  settle(step: number): void {
    this.#settled = Math.max(this.#settled, step);
  }

  /** As if the job had begun: it ends later, when it is carried out. */
  cancel(job: number): boolean {
    const found = this.#jobs.find((each) => each.job === job);
    if (found === undefined) return false;
    found.isCancelled = true;
    return true;
  }

  flush(jobs: Int32Array): void {
    while (this.#jobs.some(({ job }) => jobs.includes(job)) && this.isReady) this.run();
  }

  fence(): void {
    for (const { job } of this.#jobs) this.queue.post(job, Verdict.cancelled);
    this.#jobs = [];
  }

  counts(): LaneCounts {
    return { pending: this.#jobs.length, waiting: 0, bytes: this.#bytes, copies: 0 };
  }

  #mayRun({ notBefore, isCancelled }: Job): boolean {
    return isCancelled || notBefore <= this.#settled;
  }

  dispose(): void {
    this.#jobs = [];
    this.#all.delete(this);
    this.#inner.dispose();
    this.#done.dispose();
  }
}
