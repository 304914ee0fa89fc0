import { INSPECT, showFacts } from '../base/inspect.js';
import type { Core } from '../core/core.js';
import type { Aborts } from './calls/aborts.js';
import type { SchedulerCalls } from './calls/scheduler-calls.js';
import {
  findFinished,
  hasRunnable,
  hasWork,
  type Inspection,
  inspect,
  numUnfinished,
  type PlaceInLine,
  placeInLine,
} from './inspect/inspection.js';
import { schedulerFacts } from './inspect/scheduler-facts.js';
import { readStats, type SchedulerStats } from './inspect/stats.js';
import { verifyScheduler } from './inspect/verify.js';
import type { SchedulerConfig } from './options/options.js';
import type { Request } from './request/request.js';
import { freeBlocksToAdmit } from './schedule/admission.js';
import type { Backlog } from './state/backlog.js';
import type { SchedulerState } from './state/scheduler-state.js';

/** What can be read of a scheduler. Nothing here changes a decision. */
export class SchedulerReader {
  readonly #calls: SchedulerCalls;
  readonly #s: SchedulerState;

  /** @internal */
  constructor(calls: SchedulerCalls) {
    this.#calls = calls;
    this.#s = calls.state;
  }

  get config(): SchedulerConfig {
    return this.#s.config;
  }

  /** The native block manager and tables, to be read. Whoever changes it breaks the scheduler. */
  get core(): Core {
    return this.#s.core;
  }

  /** A `scheduleAsync` waits for the GPU: what is read now is a plan half made. */
  get isDeciding(): boolean {
    return this.#calls.gate.isSuspended;
  }

  /** A call broke off in the middle: every further call throws ERR_BLOCKSTEP_INVARIANT. */
  get isBroken(): boolean {
    return this.#calls.gate.isPoisoned;
  }

  /** @internal Has `listener` told of the error that breaks it, at once, whoever called: a connector may use its pins at any time. */
  onBroken(listener: (cause: unknown) => void): void {
    this.#calls.gate.onPoison = listener;
  }

  /** @internal Has `refuse` look at each new request whose fields are good; what it throws, `add` throws, with nothing changed. */
  onAdd(refuse: (numTokens: number) => void): void {
    this.#calls.admitNew = refuse;
  }

  /** @internal Throws once it is broken. From inside a callback nothing: the call that is running will throw. */
  checkWhole(): void {
    const { gate } = this.#calls;
    if (gate.isPoisoned && !gate.isBusy) gate.checkUsable();
  }

  /** @internal Where aborts wait: an engine queues its own here. */
  get aborts(): Aborts {
    return this.#calls.aborts;
  }

  /** @internal */
  get backlog(): Backlog {
    return this.#s.backlog;
  }

  /** Whether a request could be scheduled as far as it alone is concerned: it runs, or waits for room and for nobody outside. */
  get hasRunnable(): boolean {
    return hasRunnable(this.#s);
  }

  /** Whether a transfer uses blocks of a request that does not run: one that loads, or has finished. */
  get hasUses(): boolean {
    const { withLoad, draining, quarantined } = this.#s;
    return withLoad.size + draining.size + quarantined.size > 0;
  }

  get numRunning(): number {
    return this.#s.queues.running.length;
  }

  get numWaiting(): number {
    return this.#s.queues.waiting.length;
  }

  get numSkipped(): number {
    return this.#s.queues.numSkipped;
  }

  /** Requests that a step could bring further (vLLM get_num_unfinished_requests): none while all is paused. */
  get numUnfinished(): number {
    return numUnfinished(this.#s);
  }

  /**
   * Whether stepping can still change anything: requests, plans in flight, rows or ids not reported yet, held blocks.
   * Sessions that wait for input are no work; when only they are left, step again at `nextDeadline`.
   */
  hasWork(): boolean {
    return this.#calls.gate.during(() => hasWork(this.#s)) || this.#calls.aborts.size > 0;
  }

  /** When the first wait that has a deadline is over, on the scheduler's clock: a `schedule` from then on ends it. */
  get nextDeadline(): number {
    return this.#s.deadlines.next;
  }

  /** The unfinished request with this external id. */
  get(id: string): Request | undefined {
    return this.#s.requests.get(id);
  }

  /** The request that a handle names while it is unfinished or holds blocks; undefined when stale. */
  getByHandle(handle: number): Request | undefined {
    return this.#s.incarnation(handle);
  }

  /** @internal Where a request stands that waits to be admitted. Looks at a bounded number of requests. */
  placeInLine(request: Request): PlaceInLine {
    return placeInLine(this.#s, request);
  }

  /** @internal Blocks that must be free for a request that waits to be admitted. */
  freeBlocksToAdmit(request: Request): number {
    return freeBlocksToAdmit(this.#s, request);
  }

  /** @internal The finished request with this id whose blocks something still uses. Looks at all such requests. */
  findFinished(id: string): Request | undefined {
    return findFinished(this.#s, id);
  }

  /** @internal */
  isQuarantined(request: Request): boolean {
    return this.#s.quarantined.has(request);
  }

  [INSPECT](depth: number, options: object): string {
    const { isDisposed, isPoisoned } = this.#calls.gate;
    const state = isDisposed ? 'disposed' : isPoisoned ? 'broken' : undefined;
    return showFacts('Scheduler', depth, options, { state, ...schedulerFacts(this.#s) });
  }

  stats(): SchedulerStats {
    this.#calls.gate.checkUsable();
    return readStats(this.#s);
  }

  /** All requests by where they stand, in lists made for the call: what it costs grows with their number. */
  inspect(): Inspection {
    return inspect(this.#s);
  }

  /** Checks every invariant of the scheduler and of the native core. @throws ERR_BLOCKSTEP_INVARIANT */
  verify(): void {
    this.#calls.enter(() => this.#calls.gate.change(() => verifyScheduler(this.#s)));
  }

  /** Canonical digest of the native state: equal for equal free queues, references, hashes and rows. */
  digest(): bigint {
    this.#calls.gate.checkUsable();
    this.#s.core.flush();
    return this.#s.core.native.digest();
  }
}
