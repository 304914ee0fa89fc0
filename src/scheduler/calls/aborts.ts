import { abort, abortTargets, isAbortable } from '../life/abort.js';
import type { LogWriter } from '../log/log.js';
import type { Request } from '../request/request.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import type { CallGate } from './call-gate.js';

/** What aborts need of the public calls of their scheduler; `SchedulerCalls` is it. */
interface Calls {
  readonly state: SchedulerState;
  readonly gate: CallGate;
  readonly log: LogWriter | null;
  enter<T>(act: () => T): T;
  flushLog(): void;
}

/**
 * The aborts of a scheduler: which requests they concern, and the one place where they wait.
 *
 * An abort waits if it comes from inside a callback, since nothing may change under the call that is running; and if it comes
 * from an engine, which ends the request's stream at once and lets the scheduler hear of it later. Aborts that wait are
 * carried out by `drain`, at the latest before the next step is planned or the next answer is taken.
 */
export class Aborts {
  readonly #calls: Calls;
  /** The requests whose aborts wait, in the order in which they came, each with the reason that its client gave. */
  readonly #waiting = new Map<Request, unknown>();

  constructor(calls: Calls) {
    this.#calls = calls;
  }

  /** Aborts that wait. */
  get size(): number {
    return this.#waiting.size;
  }

  /** Whether the abort of this request waits. */
  has(request: Request): boolean {
    return this.#waiting.has(request);
  }

  /** The reason that was given with an abort that waits; undefined = none. */
  reasonOf(request: Request): unknown {
    return this.#waiting.get(request);
  }

  /**
   * The requests that ids and handles name now, and that an abort can concern; each once. What names no such request is
   * counted, and whoever asked outside of a call has to call `checkFound` when it is done with those that were found.
   */
  find(keys: Iterable<string | number>): ReadonlySet<Request> {
    return abortTargets(this.#calls.state, keys);
  }

  /**
   * What stands behind `find` if it did not find everything, as the end of a call. From inside a callback nothing: the call that is
   * running throws at its end.
   * @throws ERR_BLOCKSTEP_ANOMALY in strict mode
   */
  checkFound(): void {
    if (!this.#calls.gate.isBusy) this.#calls.enter(() => {});
  }

  /** Has a request aborted by the next `drain`. Of several aborts of a request the first counts. */
  queue(request: Request, reason?: unknown): void {
    if (!this.#waiting.has(request)) this.#waiting.set(request, reason);
  }

  /** See `Scheduler.abort`. @returns the external ids of the requests that ended now; none from inside a callback */
  byKeys(keys: readonly (string | number)[]): string[] {
    if (this.#calls.gate.isBusy) {
      // Found now: by the time of the drain the id may belong to another request.
      for (const request of this.find(keys)) this.queue(request);
      return [];
    }
    return this.#calls.enter(() => this.#carryOut(this.find(keys)));
  }

  /** `drainInCall` as a call of its own. */
  drain(): void {
    this.#calls.enter(() => this.drainInCall());
  }

  /** Carries out the aborts that wait, and those that callbacks queue meanwhile, as part of a call that was let in. */
  drainInCall(): void {
    while (this.#waiting.size > 0) {
      const targets = new Set(this.#waiting.keys());
      this.#waiting.clear();
      this.#carryOut(targets);
      // They have commands of their own in the log, in front of those of the call.
      this.#calls.gate.change(() => this.#calls.flushLog());
    }
  }

  /** Forgets the aborts that wait. */
  clear(): void {
    this.#waiting.clear();
  }

  #carryOut(targets: ReadonlySet<Request>): string[] {
    const { state, log } = this.#calls;
    const abortable = Array.from(targets).filter((target) => isAbortable(state, target));
    if (abortable.length === 0) return [];
    log?.abort(
      state.now,
      abortable.map((target) => target.handle),
    );
    return abort(state, abortable);
  }
}
