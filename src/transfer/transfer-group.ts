import type { Anomalies } from '../base/anomalies.js';
import { BlockstepError, badArgument, checkInteger, show } from '../base/errors.js';
import { INSPECT, showFacts } from '../base/inspect.js';
import { MAX_JOB } from '../core/native/native-transfer.js';
import { type CompletionQueue, checkQueue } from './completion-queue.js';
import type { Lane } from './lane.js';
import { Verdict, verdictName, worseVerdict } from './verdict.js';

/**
 * One transfer in several parts, on one lane or several, whose jobs complete on one queue or several. A part is named
 * by its queue and its job number there. The transfer is over once: when it is sealed and all its parts are over,
 * whatever their verdicts. Its verdict is `failed` if any part failed, otherwise `cancelled` if any part was cancelled.
 */
export class TransferGroup {
  readonly #anomalies: Anomalies;
  /** The lane of each part that is not over, by queue and job; null for a part that the caller began itself (`add`). */
  readonly #parts = new Map<CompletionQueue, Map<number, Lane | null>>();
  #numPending = 0;
  #numParts = 0;
  #verdict: Verdict = Verdict.ok;
  #sealed = false;
  #over = false;

  /** @param anomalies counts completions of jobs that are no part, or a part that is over */
  constructor(anomalies: Anomalies) {
    this.#anomalies = anomalies;
  }

  /** Number of parts that are not over. */
  get numPending(): number {
    return this.#numPending;
  }

  /**
   * The jobs of one queue that are parts and not over. Give them to `Lane.flush` of the lanes that complete there.
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  pending(queue: CompletionQueue): Int32Array {
    return Int32Array.from(this.#parts.get(checkQueue(queue))?.keys() ?? []);
  }

  /** Number of parts so far. */
  get numParts(): number {
    return this.#numParts;
  }

  /** Whether the transfer is sealed and all its parts are over. */
  get isOver(): boolean {
    return this.#over;
  }

  /**
   * Submits a part. If the lane refuses it, the earlier parts are cancelled where that is possible, and the transfer
   * ends as failed.
   * @returns the job of the part
   * @throws whatever the lane throws; ERR_BLOCKSTEP_BAD_ARG if the group is sealed, or `lane` is no lane
   */
  submit(lane: Lane, sources: Int32Array, targets: Int32Array, notBefore = -1): number {
    this.#checkOpen();
    const queue = checkQueue((lane as Lane | null | undefined)?.queue, 'lane.queue');
    try {
      const job = lane.submit(sources, targets, notBefore);
      this.#put(queue, job, lane);
      return job;
    } catch (error) {
      this.#verdict = Verdict.failed;
      this.cancel();
      throw error;
    }
  }

  /**
   * Adds a part that the caller has begun itself. `cancel` leaves it alone.
   * @param queue where it completes
   * @throws ERR_BLOCKSTEP_BAD_ARG if it is a part already, or the group is sealed
   */
  add(queue: CompletionQueue, job: number): void {
    this.#checkOpen();
    checkInteger('job', job, 1, MAX_JOB);
    const isPart = this.#parts.get(checkQueue(queue))?.has(job) === true;
    if (isPart) throw badArgument('job', show(job), 'no part of this transfer yet');
    this.#put(queue, job, null);
  }

  /**
   * Seals the transfer: no part comes any more.
   * @returns the verdict if all parts are over already, otherwise null
   */
  seal(): Verdict | null {
    this.#sealed = true;
    return this.#end();
  }

  /**
   * Cancels the parts that `submit` put on a lane.
   * @returns number of parts that were not over
   */
  cancel(): number {
    let count = 0;
    for (const jobs of this.#parts.values()) {
      for (const [job, lane] of jobs) if (lane !== null && cancelOn(lane, job)) count++;
    }
    return count;
  }

  /**
   * Takes the end of a part.
   * @param queue the queue that handed the job out
   * @returns the verdict of the transfer if this was its last part, exactly once; otherwise null
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  complete(queue: CompletionQueue, job: number, verdict: Verdict): Verdict | null {
    checkInteger('verdict', verdict, 1, 3);
    checkInteger('job', job, 1, MAX_JOB);
    const jobs = this.#parts.get(checkQueue(queue));
    if (!jobs?.delete(job)) {
      this.#anomalies.report('unknown-completion', `job ${job} is no pending part of the transfer`);
      return null;
    }
    if (jobs.size === 0) this.#parts.delete(queue);
    this.#numPending--;
    this.#verdict = worseVerdict(this.#verdict, verdict);
    return this.#end();
  }

  /** For `util.inspect` and `console.log`: parts, pending parts, and the verdict so far. */
  [INSPECT](depth: number, options: object): string {
    const verdict = verdictName(this.#verdict);
    const facts = { parts: this.#numParts, pending: this.#numPending, sealed: this.#sealed, verdict };
    return showFacts('TransferGroup', depth, options, facts);
  }

  #put(queue: CompletionQueue, job: number, lane: Lane | null): void {
    const jobs = this.#parts.get(queue);
    if (jobs === undefined) this.#parts.set(queue, new Map([[job, lane]]));
    else jobs.set(job, lane);
    this.#numPending++;
    this.#numParts++;
  }

  #end(): Verdict | null {
    if (!this.#sealed || this.#over || this.#numPending > 0) return null;
    this.#over = true;
    return this.#verdict;
  }

  #checkOpen(): void {
    if (this.#sealed) throw badArgument('part', 'one more', 'added before the transfer is sealed');
  }
}

/**
 * Cancels a job. A disposed lane has ended all its jobs already, and must not keep the other parts from being
 * cancelled.
 */
function cancelOn(lane: Lane, job: number): boolean {
  try {
    return lane.cancel(job);
  } catch (error) {
    if (error instanceof BlockstepError && error.code === 'ERR_BLOCKSTEP_DISPOSED') return false;
    throw error;
  }
}
