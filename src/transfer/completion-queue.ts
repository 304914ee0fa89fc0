import { Anomalies } from '../base/anomalies.js';
import { badArgument, checkInteger, show } from '../base/errors.js';
import { INSPECT, showFacts } from '../base/inspect.js';
import { checkNames, knownNames } from '../base/known-names.js';
import { loadAddon } from '../core/loader.js';
import type { NativeAddon } from '../core/native.js';
import { DRAIN_HEADER, MAX_JOB, type NativeRing, Posted } from '../core/native-transfer.js';
import type { Verdict } from './verdict.js';

export interface CompletionQueueOptions {
  /** Transfers that may be on their way at once, 1 to 2^20. Default 4,096; 8 bytes of native memory each. */
  capacity?: number;
  /** Counts what a correct completer would not do. Default: a counter of the queue's own, which throws nothing. */
  anomalies?: Anomalies;
}

const OPTIONS = knownNames<CompletionQueueOptions>('the options of a CompletionQueue', {
  capacity: true,
  anomalies: true,
});

/** What a queue holds. */
export interface CompletionCounts {
  /** Jobs that were begun and not drained yet. */
  readonly inFlight: number;
  /** Jobs from before a reset that have not ended yet: each still has its slot. */
  readonly abandoned: number;
  /** Completions so far that came for jobs that were over. */
  readonly late: number;
}

/**
 * Where transfers say that they are over. When a transfer is submitted it gets a job, a number from 1 on, and a slot. Whoever
 * completes the transfer (a lane's thread, a GPU, or `post`) stores one 64-bit word of job and verdict in that slot. So nothing
 * overflows, and no thread calls into JavaScript. A word that comes late or twice names a job that is over, and changes nothing.
 *
 * Jobs are numbered in the order in which they are begun until slots are used again, and uniquely for 2^31 jobs. A slow
 * job holds its slot and nothing else. Jobs are handed out in the order in which they were begun.
 */
export class CompletionQueue {
  /** For the lanes that complete jobs of this queue. */
  readonly native: NativeRing;
  readonly capacity: number;
  readonly anomalies: Anomalies;
  readonly #batch: Int32Array;
  /** What the last native drain brought and what was not handed out yet: words [at, end) of the batch. */
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
   * Begins a transfer that is completed by `post`. Lanes begin their transfers themselves.
   * @returns its job
   * @throws ERR_BLOCKSTEP_RING_FULL, and nothing is changed; ERR_BLOCKSTEP_DISPOSED
   */
  begin(): number {
    return this.native.begin();
  }

  /**
   * Completes a job that was begun by `begin`.
   * @returns false if there is nothing to complete, which is counted: `duplicate-completion` if the job is over,
   * `unknown-completion` if it was never begun, `wrong-owner` if it is a lane's
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
   * Hands out the jobs that have ended since the last call: one native call, and nothing allocated per completion. What `visit` throws
   * goes to the caller; the completions behind that one come with the next call.
   * @returns how many were handed out
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

  /** Jobs that were begun and not handed out yet. @throws ERR_BLOCKSTEP_DISPOSED */
  get inFlight(): number {
    return this.native.inFlight() + (this.#end - this.#at) / 2;
  }

  /** @throws ERR_BLOCKSTEP_DISPOSED */
  counts(): CompletionCounts {
    const { inFlight, abandoned, late } = this.native.counts();
    return { inFlight: inFlight + (this.#end - this.#at) / 2, abandoned, late };
  }

  /**
   * Begins an epoch: jobs that were begun before are never handed out any more. Their completions are counted as `after-reset` when
   * they come, and only then are their slots free. A reset ends no transfer: lanes do that (`fence`).
   * @returns how many jobs were in flight
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
   * Ends the queue: every later call throws ERR_BLOCKSTEP_DISPOSED, and so does `submit` of its lanes. The lanes complete the jobs that
   * they have. Idempotent.
   */
  dispose(): void {
    this.#at = this.#end;
    this.native.dispose();
  }

  [INSPECT](depth: number, options: object): string {
    return showFacts('CompletionQueue', depth, options, { capacity: this.capacity }, () => this.counts());
  }

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

/** @throws ERR_BLOCKSTEP_BAD_ARG for what is no completion queue */
export function checkQueue(queue: unknown, name = 'queue'): CompletionQueue {
  if (queue instanceof CompletionQueue) return queue;
  throw badArgument(name, show(queue), 'a CompletionQueue');
}
