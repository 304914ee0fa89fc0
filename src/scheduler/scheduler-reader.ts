import { INSPECT, showFacts } from '../base/inspect.js';
import type { Core } from '../core/core.js';
import type { Aborts } from './calls/aborts.js';
import type { SchedulerCalls } from './calls/scheduler-calls.js';
import {
  hasRunnable,
  hasWork,
  Inspection,
  numUnfinished,
  type PlaceInLine,
  placeInLine,
} from './inspect/inspection.js';
import { schedulerFacts } from './inspect/scheduler-facts.js';
import { readStats, type SchedulerStats } from './inspect/stats.js';
import { verifyScheduler } from './inspect/verify.js';
import type { SchedulerConfig } from './options/options.js';
import type { Request } from './request/request.js';
import { blocksToSpare, freeBlocksToAdmit } from './schedule/admission.js';
import { awaitsOutputs, freeSeats } from './schedule/line.js';
import type { Backlog } from './state/backlog.js';
import type { SchedulerState } from './state/scheduler-state.js';

/** The part of a scheduler that only reads. No method here changes a decision. */
export class SchedulerReader {
  readonly #calls: SchedulerCalls;
  readonly #s: SchedulerState;

  /** @internal */
  constructor(calls: SchedulerCalls) {
    this.#calls = calls;
    this.#s = calls.state;
  }

  /** The checked options, with every default filled in; frozen. */
  get config(): SchedulerConfig {
    return this.#s.config;
  }

  /**
   * The native block manager and its tables, for reading. A change through it breaks the scheduler.
   */
  get core(): Core {
    return this.#s.core;
  }

  /** Whether a `scheduleAsync` waits for the GPU. Reads then show a half-made plan. */
  get isDeciding(): boolean {
    return this.#calls.gate.isSuspended;
  }

  /** Whether a call broke off in the middle: every later call throws ERR_BLOCKSTEP_INVARIANT. */
  get isBroken(): boolean {
    return this.#calls.gate.isPoisoned;
  }

  /**
   * @internal Calls `listener` at once with the error that breaks the scheduler, even if a
   * connector caused it between two calls.
   */
  onBroken(listener: (cause: unknown) => void): void {
    this.#calls.gate.onPoison = listener;
  }

  /**
   * @internal Runs foreign code that must not call back. @throws the errors of a call of the
   * scheduler at its gate
   */
  during<T>(act: () => T): T {
    const { gate } = this.#calls;
    gate.checkFree();
    return gate.during(act);
  }

  /**
   * @internal Throws if the scheduler is broken. From inside a callback it does nothing, because
   * the running call will throw.
   * @throws ERR_BLOCKSTEP_INVARIANT, ERR_BLOCKSTEP_DISPOSED
   */
  checkWhole(): void {
    const { gate } = this.#calls;
    if (gate.isPoisoned && !gate.isBusy) gate.checkUsable();
  }

  /** @internal The pending aborts. An engine queues its own here. */
  get aborts(): Aborts {
    return this.#calls.aborts;
  }

  /** @internal Requests that were never admitted, and the rate of admissions. */
  get backlog(): Backlog {
    return this.#s.backlog;
  }

  /**
   * Whether any request could be scheduled: it runs, or waits only for room and not for a callback,
   * connector or input.
   */
  get hasRunnable(): boolean {
    return hasRunnable(this.#s);
  }

  /** Whether a request that does not run has a load, or has finished while its blocks are still in use. */
  get hasUses(): boolean {
    const { withLoad, draining, quarantined } = this.#s;
    return withLoad.size + draining.size + quarantined.size > 0;
  }

  /** The paused part: nothing, admission (`new`), or all scheduling. */
  get pauseMode(): 'none' | 'new' | 'all' {
    return this.#s.pauseMode;
  }

  /** Number of running requests. */
  get numRunning(): number {
    return this.#s.queues.running.length;
  }

  /** Number of requests in `waiting`: they can be admitted as soon as they fit. */
  get numWaiting(): number {
    return this.#s.queues.waiting.length;
  }

  /** Number of requests in `skipped`: they wait for other events, or were passed over. */
  get numSkipped(): number {
    return this.#s.queues.numSkipped;
  }

  /**
   * Number of unfinished requests that a step could advance (vLLM `get_num_unfinished_requests`); 0
   * while all is paused.
   */
  get numUnfinished(): number {
    return numUnfinished(this.#s);
  }

  /**
   * Whether a step can still change anything. This is so with requests, plans in flight, unreported
   * rows or ids, and finished requests whose blocks a transfer uses. Pending aborts and pending
   * work of the connector count too. Sessions that wait for input and quarantined requests do not
   * count: when only they are left, step again at `nextDeadline`.
   */
  hasWork(): boolean {
    return this.#calls.gate.during(() => hasWork(this.#s)) || this.#calls.aborts.size > 0;
  }

  /**
   * The earliest deadline of any request, in milliseconds on the scheduler's clock; Infinity
   * without one. A `schedule` after that time enforces it.
   */
  get nextDeadline(): number {
    return this.#s.deadlines.next;
  }

  /** The unfinished request with this external id; undefined if there is none. */
  get(id: string): Request | undefined {
    return this.#s.requests.get(id);
  }

  /**
   * The request that a handle names while it is unfinished or its blocks are in use; undefined if the handle is stale.
   */
  getByHandle(handle: number): Request | undefined {
    return this.#s.incarnation(handle);
  }

  /**
   * @internal The place in line of a request that waits to be admitted. Examines a bounded number
   * of requests.
   */
  placeInLine(request: Request): PlaceInLine {
    return placeInLine(this.#s, request);
  }

  /**
   * @internal Blocks that must be free for a waiting request to be admitted, by KV cache group; see
   * `freeBlocksToAdmit`.
   */
  freeBlocksToAdmit(request: Request): ArrayLike<number> | null {
    return freeBlocksToAdmit(this.#s, request);
  }

  /**
   * @internal Blocks that were released and wait for a step in flight; see the rule `fenceFrees`.
   */
  fencedBlocks(): number[] {
    return this.#s.fencedFrees.flatMap(({ blocks }) => [...blocks]);
  }

  /**
   * @internal Further blocks that an admission leaves free while other requests run (`watermark`).
   */
  blocksToSpare(): number {
    return blocksToSpare(this.#s);
  }

  /** @internal The number of further requests that `maxNumSeqs` allows (`sessionSeats`). */
  get freeSeats(): number {
    return freeSeats(this.#s);
  }

  /** @internal Whether a request is not admitted before steps in flight have brought its outputs (`preemptedOutputs`). */
  awaitsOutputs(request: Request): boolean {
    return awaitsOutputs(this.#s, request);
  }

  /** For `util.inspect` and `console.log`: the load of the scheduler; also after `dispose`. */
  [INSPECT](depth: number, options: object): string {
    const { isDisposed, isPoisoned } = this.#calls.gate;
    const state = isDisposed ? 'disposed' : isPoisoned ? 'broken' : undefined;
    return showFacts('Scheduler', depth, options, { state, ...schedulerFacts(this.#s) });
  }

  /**
   * Statistics of the scheduler.
   * @throws ERR_BLOCKSTEP_DISPOSED, ERR_BLOCKSTEP_INVARIANT
   */
  stats(): SchedulerStats {
    this.#calls.gate.checkUsable();
    return readStats(this.#s);
  }

  /**
   * A view of all requests, listed by state, and of the blocks that they hold. A list is made when
   * it is first read; only then does its cost grow with the number of requests.
   */
  inspect(): Inspection {
    return new Inspection(this.#s, () => this.#calls.gate.checkUsable());
  }

  /** Checks every invariant of the scheduler and of the native core. @throws ERR_BLOCKSTEP_INVARIANT */
  verify(): void {
    this.#calls.enter(() => this.#calls.gate.change(() => verifyScheduler(this.#s)));
  }

  /**
   * Canonical digest of the native state: equal for equal free queues, references, hashes and rows.
   * @throws ERR_BLOCKSTEP_DISPOSED, ERR_BLOCKSTEP_INVARIANT
   */
  digest(): bigint {
    this.#calls.gate.checkUsable();
    this.#s.core.flush();
    return this.#s.core.native.digest();
  }
}
