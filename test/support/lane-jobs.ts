import type { CompletionQueue } from '../../src/transfer.js';

/** One job of a lane, and its purpose. */
export interface LaneJob<Payload = undefined> {
  readonly queue: CompletionQueue;
  readonly job: number;
  readonly handle: number;
  readonly kind: 'load' | 'store';
  readonly blocks: Int32Array;
  /** The further facts that the connector needs when the job is over. */
  readonly payload: Payload;
}

/** A job as it is added; without a payload where the jobs have none. */
type What<Payload> = Pick<LaneJob, 'handle' | 'kind' | 'blocks'> &
  (undefined extends Payload ? { payload?: Payload } : { payload: Payload });

/** The jobs of a connector that are not over. Every queue numbers its own jobs. */
export class LaneJobs<Payload = undefined> {
  readonly #byQueue = new Map<CompletionQueue, Map<number, LaneJob<Payload>>>();

  get size(): number {
    return this.#all().length;
  }

  add(queue: CompletionQueue, job: number, what: What<Payload>): void {
    const jobs = this.#byQueue.get(queue) ?? new Map<number, LaneJob<Payload>>();
    if (jobs.has(job)) throw new Error(`job ${job} is not over`);
    this.#byQueue.set(
      queue,
      jobs.set(job, { payload: undefined as Payload, ...what, queue, job, blocks: what.blocks.slice() }),
    );
  }

  /** Takes out a job that is over. @throws Error if there is none: a queue hands out each job once */
  complete(queue: CompletionQueue, job: number): LaneJob<Payload> {
    const entry = this.#byQueue.get(queue)?.get(job);
    if (entry === undefined) throw new Error(`job ${job} is over, or was never submitted`);
    this.#byQueue.get(queue)?.delete(job);
    return entry;
  }

  has(handle: number, kind?: LaneJob['kind']): boolean {
    return this.of(handle).some((entry) => kind === undefined || entry.kind === kind);
  }

  of(handle: number): LaneJob<Payload>[] {
    return this.#all().filter((entry) => entry.handle === handle);
  }

  /** The jobs of one queue that read or write any of these blocks. */
  touching(queue: CompletionQueue, blocks: Int32Array): Int32Array {
    const jobs = [...(this.#byQueue.get(queue)?.values() ?? [])];
    const touching = jobs.filter((entry) => entry.blocks.some((block) => blocks.includes(block)));
    return Int32Array.from(touching, ({ job }) => job);
  }

  /** Forgets every job of a queue that was reset, which hands none of them out. */
  clear(queue: CompletionQueue): void {
    this.#byQueue.delete(queue);
  }

  #all(): LaneJob<Payload>[] {
    return [...this.#byQueue.values()].flatMap((jobs) => [...jobs.values()]);
  }
}
