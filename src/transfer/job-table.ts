import type { Anomalies } from '../base/anomalies.js';
import { takeInt32Array } from '../base/arrays.js';
import { badArgument, checkInteger, show } from '../base/errors.js';
import { INSPECT, showFacts } from '../base/inspect.js';
import { checkNames, knownNames } from '../base/known-names.js';
import { MAX_JOB } from '../core/native/native-transfer.js';
import type { BlockPins } from '../scheduler/connector/connector.js';
import { type CompletionQueue, checkQueue } from './completion-queue.js';

const MAX_BLOCK = 2 ** 31 - 1;
const KINDS: readonly unknown[] = ['load', 'store'];

/** One job of a transfer: the blocks that it moves, and for which request. */
export interface TransferJob<Payload = undefined> {
  /** Where the job completes. Every queue numbers its own jobs. */
  readonly queue: CompletionQueue;
  /** Number of the job on its queue, 1 to 2^31 - 1. */
  readonly job: number;
  /** Handle of the request. */
  readonly handle: number;
  /** `load`: the job writes the blocks. `store`: it reads them. */
  readonly kind: 'load' | 'store';
  /** Index of the connector's child. */
  readonly child: number;
  /** Rank of the child that carries out the job. */
  readonly rank: number;
  /** Ids of the blocks of the request that the job reads or writes. */
  readonly blocks: Int32Array;
  /**
   * The caller's own data: what to do when the job is over, for instance the step to report, or the group of the job.
   */
  readonly payload: Payload;
}

/** A job as it is given to `TransferJobs.add`. */
export type TransferJobInput<Payload = undefined> = Pick<TransferJob, 'handle' | 'kind' | 'blocks'> &
  Partial<Pick<TransferJob, 'child' | 'rank'>> &
  (undefined extends Payload
    ? {
        /** The caller's own data; see `TransferJob.payload`. */
        readonly payload?: Payload;
      }
    : {
        /** The caller's own data; see `TransferJob.payload`. */
        readonly payload: Payload;
      });

const INPUT_FIELDS = knownNames<TransferJobInput>('the input of a transfer job', {
  handle: true,
  kind: true,
  blocks: true,
  child: true,
  rank: true,
  payload: true,
});

/**
 * The jobs of a connector that are not over, on all its queues. They are found in three ways. By queue and number:
 * every queue numbers its own jobs. By request: a connector with protection `own` needs to know whether a request still
 * has jobs. By block: a connector with protection `fence` needs to know which jobs to flush before a block is reused.
 * With `pins`, for protection `pin`, the blocks of a job are pinned from `add` to `complete`.
 */
export class TransferJobs<Payload = undefined> {
  readonly #anomalies: Anomalies;
  readonly #pins: BlockPins | null;
  /** Has only queues with jobs. */
  readonly #byQueue = new Map<CompletionQueue, Map<number, TransferJob<Payload>>>();
  readonly #byHandle = new Map<number, Set<TransferJob<Payload>>>();
  readonly #byBlock = new Map<number, Set<TransferJob<Payload>>>();
  #size = 0;

  /**
   * @param anomalies counts duplicate jobs and unknown completions
   * @param pins pins the blocks of each job; null = no pins
   */
  constructor(anomalies: Anomalies, pins: BlockPins | null = null) {
    this.#anomalies = anomalies;
    this.#pins = pins;
  }

  /** Number of jobs that are not over. */
  get size(): number {
    return this.#size;
  }

  /**
   * Adds a job that was submitted.
   * @param queue where it completes: the queue of its lane
   * @param input `child` and `rank` default to 0; the blocks are copied
   * @returns false if the queue has a job of this number that is not over, which is counted as `duplicate-job`
   * @throws ERR_BLOCKSTEP_BAD_ARG, also from `BlockPins.pin`; nothing is changed then
   */
  add(queue: CompletionQueue, job: number, input: TransferJobInput<Payload>): boolean {
    const entry = takeJob<Payload>(queue, job, input);
    let jobs = this.#byQueue.get(entry.queue);
    if (jobs?.has(entry.job)) {
      this.#anomalies.report('duplicate-job', `job ${job} is not over`);
      return false;
    }
    this.#pins?.pin(entry.blocks);
    if (jobs === undefined) {
      jobs = new Map();
      this.#byQueue.set(entry.queue, jobs);
    }
    jobs.set(entry.job, entry);
    this.#size++;
    link(this.#byHandle, entry.handle, entry);
    for (const block of entry.blocks) link(this.#byBlock, block, entry);
    return true;
  }

  /**
   * Removes a job that is over, however it ended, and unpins its blocks.
   * @param queue the queue that handed the job out
   * @returns the job; null if there is no such job, which is counted as `unknown-completion`
   * @throws ERR_BLOCKSTEP_BAD_ARG; whatever `BlockPins.unpin` throws, after the job is removed
   */
  complete(queue: CompletionQueue, job: number): TransferJob<Payload> | null {
    checkQueue(queue);
    checkInteger('job', job, 1, MAX_JOB);
    const entry = this.#byQueue.get(queue)?.get(job);
    if (entry === undefined) {
      this.#anomalies.report('unknown-completion', `job ${job} is over, or was never submitted`);
      return null;
    }
    this.#remove(entry);
    return entry;
  }

  /** A job that is not over; null if there is none of this number. */
  get(queue: CompletionQueue, job: number): TransferJob<Payload> | null {
    return this.#byQueue.get(queue)?.get(job) ?? null;
  }

  /**
   * Whether a request has jobs that are not over, on any queue.
   * @param kind counts only jobs of this kind; default: both
   */
  has(handle: number, kind?: TransferJob['kind']): boolean {
    const jobs = this.#byHandle.get(handle);
    if (jobs === undefined) return false;
    if (kind === undefined) return true;
    for (const entry of jobs) if (entry.kind === kind) return true;
    return false;
  }

  /** The jobs of a request that are not over, on all queues, in the order of `add`. */
  of(handle: number): TransferJob<Payload>[] {
    return [...(this.#byHandle.get(handle) ?? [])];
  }

  /**
   * The jobs of one queue that read or write any of these blocks, each once, ascending. Give them to `Lane.flush` of
   * the lanes that complete there.
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  touching(queue: CompletionQueue, blocks: Int32Array): Int32Array {
    checkQueue(queue);
    const found = new Set<number>();
    for (const block of takeInt32Array('blocks', blocks)) {
      for (const entry of this.#byBlock.get(block) ?? []) if (entry.queue === queue) found.add(entry.job);
    }
    return Int32Array.from(found).sort();
  }

  /**
   * Forgets every job of this queue, or of all queues. Call it when no transfer submitted so far touches memory any
   * more. A queue that was reset never hands its earlier jobs out, so they stay here until they are forgotten.
   * @returns the forgotten jobs
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  clear(queue?: CompletionQueue): TransferJob<Payload>[] {
    const tables = queue === undefined ? [...this.#byQueue.values()] : [this.#byQueue.get(checkQueue(queue))];
    const all = tables.flatMap((jobs) => [...(jobs?.values() ?? [])]);
    for (const entry of all) this.#remove(entry);
    return all;
  }

  /** For `util.inspect` and `console.log`: how many jobs, and how many requests and blocks they concern. */
  [INSPECT](depth: number, options: object): string {
    const facts = { jobs: this.#size, requests: this.#byHandle.size, blocks: this.#byBlock.size };
    return showFacts('TransferJobs', depth, options, facts);
  }

  #remove(entry: TransferJob<Payload>): void {
    const jobs = this.#byQueue.get(entry.queue);
    if (jobs?.delete(entry.job) && jobs.size === 0) this.#byQueue.delete(entry.queue);
    this.#size--;
    unlink(this.#byHandle, entry.handle, entry);
    for (const block of entry.blocks) unlink(this.#byBlock, block, entry);
    this.#pins?.unpin(entry.blocks);
  }
}

function takeJob<Payload>(queue: unknown, job: unknown, input: unknown): TransferJob<Payload> {
  if (typeof input !== 'object' || input === null) throw badArgument('input', show(input), 'an object');
  checkNames(input, INPUT_FIELDS);
  const { handle, kind, child = 0, rank = 0, blocks, payload } = input as Record<keyof TransferJob, unknown>;
  if (!KINDS.includes(kind)) throw badArgument('kind', show(kind), "'load' or 'store'");
  const entry: TransferJob<Payload> = {
    queue: checkQueue(queue),
    job: checkInteger('job', job, 1, MAX_JOB),
    handle: checkInteger('handle', handle, 1, Number.MAX_SAFE_INTEGER),
    kind: kind as TransferJob['kind'],
    child: checkInteger('child', child, 0, MAX_BLOCK),
    rank: checkInteger('rank', rank, 0, MAX_BLOCK),
    blocks: takeInt32Array('blocks', blocks).slice(),
    payload: payload as Payload,
  };
  const bad = entry.blocks.findIndex((block) => block < 0);
  if (bad < 0) return entry;
  throw badArgument(`blocks[${bad}]`, String(entry.blocks[bad]), `an integer from 0 to ${MAX_BLOCK}`);
}

function link<T>(index: Map<number, Set<T>>, key: number, entry: T): void {
  const jobs = index.get(key);
  if (jobs === undefined) index.set(key, new Set([entry]));
  else jobs.add(entry);
}

function unlink<T>(index: Map<number, Set<T>>, key: number, entry: T): void {
  const jobs = index.get(key);
  if (jobs?.delete(entry) && jobs.size === 0) index.delete(key);
}
