import { Anomalies } from '../base/anomalies.js';
import { badArgument, checkInteger, show } from '../base/errors.js';
import { INSPECT, showFacts } from '../base/inspect.js';
import { checkNames, knownNames } from '../base/known-names.js';
import { loadAddon } from '../core/loader.js';
import type { NativeAddon } from '../core/native/native.js';
import { DRAIN_HEADER, MAX_JOB, type NativeRing, Posted } from '../core/native/native-transfer.js';
import type { Verdict } from './verdict.js';

/** Options of a `CompletionQueue`. */
export interface CompletionQueueOptions {
  /** Most jobs in flight at once, 1 to 2^20. Default 4,096; 8 bytes of native memory each. */
  capacity?: number;
  /**
   * Counts completions that a correct completer would not post. Default: counts of the queue's own,
   * which never throw.
   */
  anomalies?: Anomalies;
}

const OPTIONS = knownNames<CompletionQueueOptions>('the options of a CompletionQueue', {
  capacity: true,
  anomalies: true,
});

/** How many jobs a queue has. */
export interface CompletionCounts {
  /** Jobs that were begun and not handed out yet. */
  readonly inFlight: number;
  /** Jobs of before a reset that have not completed: each still has its slot. */
  readonly abandoned: number;
  /** Completions so far that came for a job that was over. */
  readonly late: number;
}

/**
 * The queue where transfers complete. A submitted transfer gets a job, a number from 1, and a slot.
 * Its completer (a lane, or `post`) stores one 64-bit word there, made of job and verdict. So the
 * queue cannot overflow, no thread calls into JavaScript, and a late or duplicate word names a job
 * that is over and changes nothing.
 *
 * Jobs are numbered in the order in which they begin until slots are reused, and uniquely for 2^31
 * jobs. `drain` hands completed jobs out in the order in which they began. A slow job holds its own
 * slot and delays no other.
 */
export class CompletionQueue {
  /** The native queue, for the lanes whose jobs complete here. */
  readonly native: NativeRing;
  /** Slots of the queue, which is the most jobs in flight at once. */
  readonly capacity: number;
  /** Counts completions that a correct completer would not post. */
  readonly anomalies: Anomalies;
  readonly #batch: Int32Array;
  /**
   * Completions of the last native drain that were not handed out yet: words [at, end) of the
   * batch.
   */
  #at = 0;
  #end = 0;

  /** @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_NO_MEMORY, ERR_BLOCKSTEP_NO_NATIVE */
  constructor(options: CompletionQueueOptions = {}, addon: NativeAddon = loadAddon()) {
    if (typeof options !== 'object' || options === null)
      throw badArgument('options', show(options), 'an object');
    checkNames(options, OPTIONS);
    const { capacity = 4096, anomalies = new Anomalies(false) } = options;
    if (!(anomalies instanceof Anomalies)) throw badArgument('anomalies', show(anomalies), 'an Anomalies');
    this.capacity = checkInteger('capacity', capacity, 1, 2 ** 20);
    this.anomalies = anomalies;
    this.native = addon.createRing(this.capacity);
    this.#batch = new Int32Array(DRAIN_HEADER + 2 * this.capacity);
  }

  /**
   * Begins a job that `post` will complete. Lanes begin their own jobs.
   * @returns the job
   * @throws ERR_BLOCKSTEP_RING_FULL, with nothing changed; ERR_BLOCKSTEP_DISPOSED
   */
  begin(): number {
    return this.native.begin();
  }

  /**
   * Completes a job that was begun by `begin`.
   * @returns false if the job cannot be completed. This is counted: `duplicate-completion` if the
   * job is over, `unknown-completion` if it was never begun, `wrong-owner` if a lane completes it
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_DISPOSED
   */
  post(job: number, verdict: Verdict): boolean {
    checkInteger('job', job, 1, MAX_JOB);
    switch (this.native.post(job, checkInteger('verdict', verdict, 1, 3))) {
      case Posted.taken:
        return true;
      case Posted.late:
        this.anomalies.report('duplicate-completion', `job ${job} is over`);
        return false;
      case Posted.owned:
        this.anomalies.report('wrong-owner', `job ${job} is completed by its lane`);
        return false;
      default:
        this.anomalies.report('unknown-completion', `job ${job} was never begun`);
        return false;
    }
  }

  /**
   * Hands out the jobs that have completed since the last call: one native call, and no allocation
   * per job. An error thrown by `visit` goes to the caller; the jobs after that one come with the
   * next call.
   * @returns number of jobs that were handed out
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_DISPOSED
   */
  drain(visit: (job: number, verdict: Verdict) => void): number {
    if (typeof visit !== 'function') throw badArgument('visit', show(visit), 'a function');
    const before = this.#handOut(visit);
    const count = this.native.drain(this.#batch);
    this.#at = DRAIN_HEADER;
    this.#end = DRAIN_HEADER + 2 * count;
    this.#report('after-reset', this.#batch[0], 'of a transfer from before a reset');
    this.#report('duplicate-completion', this.#batch[1], 'of a transfer that was over');
    return before + this.#handOut(visit);
  }

  /**
   * Number of jobs that were begun and not handed out yet.
   * @throws ERR_BLOCKSTEP_DISPOSED
   */
  get inFlight(): number {
    return this.native.inFlight() + (this.#end - this.#at) / 2;
  }

  /** @throws ERR_BLOCKSTEP_DISPOSED */
  counts(): CompletionCounts {
    const { inFlight, abandoned, late } = this.native.counts();
    return { inFlight: inFlight + (this.#end - this.#at) / 2, abandoned, late };
  }

  /**
   * Begins an epoch: earlier jobs are never handed out any more. Their completions are counted as
   * `after-reset` when they come, and only then are their slots free. The transfers themselves go
   * on; `Lane.fence` ends them.
   * @returns number of jobs that were in flight
   * @throws ERR_BLOCKSTEP_DISPOSED
   */
  reset(): number {
    const dropped = this.native.reset();
    const waiting = (this.#end - this.#at) / 2;
    this.#at = this.#end;
    this.#report('after-reset', waiting, 'of a transfer from before a reset');
    return dropped + waiting;
  }

  /**
   * Ends the queue: every later call throws ERR_BLOCKSTEP_DISPOSED, and so does `submit` of its
   * lanes. The lanes still finish the jobs that they have. Idempotent.
   */
  dispose(): void {
    this.#at = this.#end;
    this.native.dispose();
  }

  /** For `util.inspect` and `console.log`: the capacity and the counts. */
  [INSPECT](depth: number, options: object): string {
    return showFacts('CompletionQueue', depth, options, { capacity: this.capacity }, () => this.counts());
  }

  /** As `dispose`, at the end of a `using` block. */
  [Symbol.dispose](): void {
    this.dispose();
  }

  #handOut(visit: (job: number, verdict: Verdict) => void): number {
    let count = 0;
    while (this.#at < this.#end) {
      const at = this.#at;
      this.#at = at + 2;
      count++;
      visit(this.#batch[at], this.#batch[at + 1] as Verdict);
    }
    return count;
  }

  #report(reason: 'after-reset' | 'duplicate-completion', count: number, detail: string): void {
    for (let i = 0; i < count; i++) this.anomalies.report(reason, detail);
  }
}

/**
 * Takes a completion queue from a caller.
 * @throws ERR_BLOCKSTEP_BAD_ARG for anything else
 */
export function checkQueue(queue: unknown, name = 'queue'): CompletionQueue {
  if (queue instanceof CompletionQueue) return queue;
  throw badArgument(name, show(queue), 'a CompletionQueue');
}
