import { badArgument, checkInteger, show } from '../core/errors.js';
import { MAX_JOB } from '../core/native-transfer.js';
import type { Anomalies } from '../scheduler/anomalies.js';
import type { Lane } from './lane.js';
import { Verdict, worseVerdict } from './verdict.js';

/**
 * A transfer in several parts, on one lane or several. It is over once, when it was sealed and all its parts are over:
 * failed and cancelled ones too. It failed if any part failed, and was cancelled if any was.
 */
export class TransferGroup {
  readonly #anomalies: Anomalies;
  readonly #pending = new Map<number, Lane | null>();
  #numParts = 0;
  #verdict: Verdict = Verdict.ok;
  #sealed = false;
  #over = false;

  /** @param anomalies counts completions that are of no part, or of one that is over */
  constructor(anomalies: Anomalies) {
    this.#anomalies = anomalies;
  }

  /** Parts that are not over. */
  get pending(): number[] {
    return [...this.#pending.keys()];
  }

  get numParts(): number {
    return this.#numParts;
  }

  get isOver(): boolean {
    return this.#over;
  }

  /**
   * Submits a part. If the lane refuses it the parts before it are cancelled where they can be, and the group will end as
   * failed.
   * @returns its job
   * @throws what the lane throws; ERR_BLOCKSTEP_BAD_ARG if the group is sealed
   */
  submit(lane: Lane, sources: Int32Array, targets: Int32Array, notBefore = -1): number {
    this.#checkOpen();
    try {
      const job = lane.submit(sources, targets, notBefore);
      this.#pending.set(job, lane);
      this.#numParts++;
      return job;
    } catch (error) {
      this.#verdict = Verdict.failed;
      this.cancel();
      throw error;
    }
  }

  /** Adds a part that somebody else has begun. @throws ERR_BLOCKSTEP_BAD_ARG if it is one already, or the group is sealed */
  add(job: number): void {
    this.#checkOpen();
    checkInteger('job', job, 1, MAX_JOB);
    if (this.#pending.has(job)) throw badArgument('job', show(job), 'no part of this transfer yet');
    this.#pending.set(job, null);
    this.#numParts++;
  }

  /** No part comes any more. @returns the group's verdict if all its parts are over already, otherwise null */
  seal(): Verdict | null {
    this.#sealed = true;
    return this.#end();
  }

  /** Cancels the parts that are on a lane. @returns how many were not over */
  cancel(): number {
    let count = 0;
    for (const [job, lane] of this.#pending) if (lane?.cancel(job)) count++;
    return count;
  }

  /**
   * A part is over.
   * @returns the group's verdict if this was the last part, exactly once; otherwise null
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  complete(job: number, verdict: Verdict): Verdict | null {
    checkInteger('verdict', verdict, 1, 3);
    if (!this.#pending.delete(checkInteger('job', job, 1, MAX_JOB))) {
      this.#anomalies.report('unknown-completion', `job ${job} is no pending part of the transfer`);
      return null;
    }
    this.#verdict = worseVerdict(this.#verdict, verdict);
    return this.#end();
  }

  #end(): Verdict | null {
    if (!this.#sealed || this.#over || this.#pending.size > 0) return null;
    this.#over = true;
    return this.#verdict;
  }

  #checkOpen(): void {
    if (this.#sealed) throw badArgument('part', 'one more', 'added before the transfer is sealed');
  }
}
