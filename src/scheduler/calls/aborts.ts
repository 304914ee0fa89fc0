import { abort, abortTargets, isAbortable } from '../life/abort.js';
import type { LogWriter } from '../log/log.js';
import type { Request } from '../request/request.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import type { CallGate } from './call-gate.js';

/** The public calls of the scheduler that `Aborts` needs; `SchedulerCalls` has them. */
interface Calls {
  readonly state: SchedulerState;
  readonly gate: CallGate;
  readonly log: LogWriter | null;
  enter<T>(act: () => T): T;
  flushLog(): void;
}

/**
 * The aborts of a scheduler: finds the requests that they concern, and is the only place where
 * aborts wait.
 *
 * An abort waits in two cases. It comes from inside a callback, where the running call must not be
 * changed. Or it comes from an engine, which ends the request's stream at once and tells the
 * scheduler later. `drain` carries out the pending aborts, at the latest before the next step is
 * planned or the next result is processed.
 */
export class Aborts {
  readonly #calls: Calls;
  /**
   * The requests with a pending abort, in the order of their aborts, each with its client's reason.
   */
  readonly #waiting = new Map<Request, unknown>();

  constructor(calls: Calls) {
    this.#calls = calls;
  }

  /** Number of pending aborts. */
  get size(): number {
    return this.#waiting.size;
  }

  /** Whether the abort of this request is pending. */
  has(request: Request): boolean {
    return this.#waiting.has(request);
  }

  /** The reason of a pending abort; undefined = none. */
  reasonOf(request: Request): unknown {
    return this.#waiting.get(request);
  }

  /**
   * The requests that these ids and handles name now and that an abort can concern, each once. An
   * id or handle without such a request is counted. A caller outside of a public call must call
   * `checkFound` after it has processed the requests.
   */
  find(keys: Iterable<string | number>): ReadonlySet<Request> {
    return abortTargets(this.#calls.state, keys);
  }

  /**
   * Ends a `find` outside of a public call: in strict mode it throws for what `find` counted. From
   * inside a callback it does nothing, because the running call throws at its end.
   * @throws ERR_BLOCKSTEP_ANOMALY in strict mode; the errors of a public call at its start
   */
  checkFound(): void {
    if (!this.#calls.gate.isBusy) this.#calls.enter(() => {});
  }

  /**
   * Queues the abort of a request for the next `drain`. If a request is aborted several times, the
   * first abort counts.
   */
  queue(request: Request, reason?: unknown): void {
    if (!this.#waiting.has(request)) this.#waiting.set(request, reason);
  }

  /**
   * See `Scheduler.abort`.
   * @returns external ids of the requests that ended now; none from inside a callback
   */
  byKeys(keys: readonly (string | number)[]): string[] {
    if (this.#calls.gate.isBusy) {
      // The requests are looked up now, because by the time of the drain an id may belong to
      // another request.
      for (const request of this.find(keys)) this.queue(request);
      return [];
    }
    return this.#calls.enter(() => this.#carryOut(this.find(keys)));
  }

  /** Runs `drainInCall` as a public call of its own. */
  drain(): void {
    this.#calls.enter(() => this.drainInCall());
  }

  /**
   * Carries out the pending aborts, including those that callbacks queue meanwhile. Must be called
   * inside a public call.
   */
  drainInCall(): void {
    while (this.#waiting.size > 0) {
      const targets = new Set(this.#waiting.keys());
      this.#waiting.clear();
      this.#carryOut(targets);
      // The aborts have commands of their own in the log, before those of the call.
      this.#calls.gate.change(() => this.#calls.flushLog());
    }
  }

  /** Drops the pending aborts, without carrying them out. */
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
