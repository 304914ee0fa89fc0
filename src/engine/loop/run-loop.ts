import { Deferred } from '../../base/deferred.js';
import type { HealthWatch } from '../inspect/health.js';
import { brokenBy, type EngineState } from '../state/engine-state.js';
import type { StepLoop, StepReport } from './step-loop.js';

/** Milliseconds between two turns while there is work and none of it can be scheduled. */
const BACKOFF_MS = 1;
/**
 * The maximum number of milliseconds between two turns while a deadline is open, because a user's
 * clock may run faster than the platform's.
 */
const WATCH_MS = 1000;
/**
 * Milliseconds between two turns that poll the workers for reports of transfers while no step is
 * due. Workers have no timers of their own.
 */
const REPORTS_MS = 50;

/**
 * Makes the engine drive itself: `Engine.run`. Owns the only timer of the engine.
 *
 * A turn processes at most one answer and fills the pipeline. Then it yields to the event loop, so
 * that I/O, readers and other engines can run. Between turns the loop waits in one of four ways:
 * - for the next turn of the event loop, if there is something to do;
 * - for the executor's answer;
 * - for 1 ms, if there is work and none of it can be scheduled;
 * - for the next request, if there is no work.
 *
 * A wait keeps the process alive while its outcome is awaited (`#isAwaited`); during a shutdown
 * every wait does.
 */
export class RunLoop {
  readonly #e: EngineState;
  readonly #steps: StepLoop;
  readonly #health: HealthWatch;
  /**
   * Called after every turn.
   * @returns the maximum number of milliseconds until the next turn, for which the process stays
   * alive; Infinity = no turn due
   */
  readonly #afterTurn: () => number;
  protected running = false;
  /** `start` was called, and `stop` was not called since: the loop runs without guests too. */
  #asked = false;
  /** Guests: batches that need the loop (`Engine.generate`). */
  #guests = 0;
  #immediate: NodeJS.Immediate | null = null;
  #timer: NodeJS.Timeout | null = null;
  #timerDelay = 0;
  /** Whether `#timer` keeps the process alive. */
  #keepsAlive = false;
  #stalledTurns = 0;
  /** Settles the promise that `start` returned; null while the loop does not run. */
  #end: Deferred<void> | null = null;

  constructor(e: EngineState, steps: StepLoop, health: HealthWatch, afterTurn: () => number) {
    this.#e = e;
    this.#steps = steps;
    this.#health = health;
    this.#afterTurn = afterTurn;
  }

  /**
   * Whether the engine drives itself, for `start` or a guest. False while the loop only finishes
   * after its last guest has left.
   */
  get isRunning(): boolean {
    return this.running && this.#isNeeded();
  }

  /** Whether a turn is due in the event loop, which keeps the process alive. */
  get isDue(): boolean {
    return this.#immediate !== null;
  }

  /**
   * Starts the loop, or continues. @returns resolves when the loop is stopped; rejects when the
   * engine breaks. A caller may ignore it
   */
  start(): Promise<void> {
    this.#asked = true;
    return this.#go();
  }

  /** A guest comes: the loop runs at least until the guest calls `leave`. */
  join(): void {
    this.#guests++;
    void this.#go();
  }

  /**
   * A guest leaves. After the last guest the loop stops, unless `start` was called. If requests of
   * other clients are unfinished, it stops in its next turn. Otherwise it stops when the answers of
   * steps in flight are processed and nothing is left to report.
   */
  leave(): void {
    this.#guests--;
    this.poke();
  }

  #isNeeded(): boolean {
    return this.#asked || this.#guests > 0;
  }

  #go(): Promise<void> {
    if (this.#end === null) {
      this.#end = new Deferred();
      this.#end.promise.catch(() => {});
    }
    this.running = true;
    this.poke();
    return this.#end.promise;
  }

  /** Stops the loop, and leaves no timer. @param error rejects the promise of `start`; undefined = that promise resolves */
  stop(error?: unknown): void {
    this.running = false;
    this.#asked = false;
    clearImmediate(this.#immediate ?? undefined);
    this.#immediate = null;
    this.#clearTimer();
    const end = this.#end;
    this.#end = null;
    if (error === undefined) end?.resolve();
    else end?.reject(error);
  }

  /** Wakes the loop after an event: it makes a turn in the next turn of the event loop. */
  poke(): void {
    if (!this.running || this.#immediate !== null) return;
    this.#immediate = setImmediate(this.#onTurn);
  }

  readonly #onTurn = (): void => {
    this.#immediate = null;
    if (!this.#isNeeded() && this.#e.streams.size > 0) {
      this.stop();
      return;
    }
    this.turn();
  };

  /** Runs the rounds of a turn. An error breaks the engine. */
  protected turn(): void {
    let report: StepReport | null = null;
    try {
      // Each round submits a step, or is the last of this turn.
      let left = this.#e.scheduler.config.pipelineDepth + 1;
      do report = this.#steps.step();
      while (report.state === 'progress' && !report.answered && this.running && --left > 0);
      // The executor gets its next step first, so that it computes while readers run.
      if (report.answered && this.running) this.#steps.step(false);
    } catch (error) {
      this.#e.breakOff(brokenBy(error));
    }
    this.endTurn(report);
  }

  /** Ends a turn, and schedules the next one. @param report of its last round; null if it threw */
  protected endTurn(report: StepReport | null): void {
    const wait = this.#afterTurn();
    if (!this.running) return;
    if (report === null || this.#e.poison !== null) this.stop(this.#e.poison ?? undefined);
    else if (!this.#isNeeded() && (report.state === 'idle' || report.state === 'stalled')) this.stop();
    else this.#rest(report, wait);
  }

  /** Schedules the next turn. */
  #rest(report: StepReport, wait: number): void {
    const { state } = report;
    this.#stalledTurns = state === 'stalled' ? this.#stalledTurns + 1 : 0;
    if (state === 'progress' || this.#stalledTurns === 1) {
      this.poke();
      return;
    }
    let delay = wait;
    if (this.#e.awaitsReports()) delay = Math.min(delay, REPORTS_MS);
    if (state === 'stalled' || (state === 'waiting' && this.#mayUnblock())) delay = BACKOFF_MS;
    else if (state === 'waiting') delay = Math.min(delay, this.#health.executorTimeLeft());
    const { nextDeadline, config } = this.#e.scheduler;
    // While the pipeline is full, no plan can be made, so no deadline can be enforced. The next
    // answer wakes the loop.
    const mayPlan = this.#e.flight.length < config.pipelineDepth;
    if (mayPlan && nextDeadline !== Number.POSITIVE_INFINITY)
      delay = Math.min(delay, nextDeadline - this.#e.now());
    this.#wakeAfter(delay, wait !== Number.POSITIVE_INFINITY || this.#isAwaited());
  }

  /**
   * Whether an unfinished request can still progress, or has a deadline. Sessions that wait for
   * input, and requests that are paused, count only with a deadline. Transfers that still use the
   * blocks of ended requests do not count, because no client waits for them.
   */
  #isAwaited(): boolean {
    const { flight, streams, scheduler } = this.#e;
    if (streams.size === 0) return false;
    if (flight.length > 0 || scheduler.numUnfinished > 0) return true;
    return scheduler.nextDeadline !== Number.POSITIVE_INFINITY;
  }

  /**
   * Whether a request that waits for an external event may become ready while another step can be
   * in flight.
   */
  #mayUnblock(): boolean {
    const { flight, scheduler } = this.#e;
    return scheduler.numSkipped > 0 && flight.length < scheduler.config.pipelineDepth;
  }

  /** @param ms until the next turn; Infinity = no turn is due. @param keepAlive whether the process stays alive until then */
  #wakeAfter(ms: number, keepAlive: boolean): void {
    if (ms !== Number.POSITIVE_INFINITY || keepAlive) this.#setTimer(Math.max(1, Math.min(ms, WATCH_MS)));
    if (this.#timer === null || this.#keepsAlive === keepAlive) return;
    this.#keepsAlive = keepAlive;
    if (keepAlive) this.#timer.ref();
    else this.#timer.unref();
  }

  #setTimer(delay: number): void {
    // A timer that is due soon enough stays. While steps come and go, a timer is set once per
    // second, not once per step.
    if (this.#timer !== null && this.#timerDelay <= delay) return;
    this.#clearTimer();
    this.#timerDelay = delay;
    this.#timer = setTimeout(this.#onTimer, delay);
    this.#keepsAlive = true;
  }

  readonly #onTimer = (): void => {
    this.#timer = null;
    if (this.#immediate === null) this.#onTurn();
  };

  #clearTimer(): void {
    clearTimeout(this.#timer ?? undefined);
    this.#timer = null;
  }
}
