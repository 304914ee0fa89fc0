import { channels } from '../../base/channels.js';
import { BlockstepError, describeError } from '../../base/errors.js';
import { describeCallee, enterCallee, leaveCallee } from '../../base/foreign/callee.js';
import type { Plan } from '../../scheduler/plan/plan.js';
import type { Request } from '../../scheduler/request/request.js';
import type { Scheduler } from '../../scheduler/scheduler.js';
import { LiveStreams } from '../streams/live-streams.js';
import { Workers } from '../workers/workers.js';
import { EngineCounters } from './counters.js';
import type { EngineConfig } from './options.js';
import type { Step } from './step.js';
import { StepTimes } from './step-times.js';

/**
 * Receives events of the state, for parts of the engine that are built on top of it (run loop,
 * health).
 */
export interface StateListener {
  /** Something happened that may need a turn of the run loop. */
  poke(): void;
  /** The engine broke: it refuses all further work. */
  broke(): void;
}

/** Texts about the next step, for messages to clients. */
export interface StepWords {
  /** The call by which a client makes a step. */
  readonly call: string;
  /** The next event of a request that waits for nothing else. */
  readonly next: string;
  /** The present obstacle of the next step itself; null = none. */
  readonly now: string | null;
}

const STEP_WORDS: StepWords = { call: 'step()', next: 'the next step decides', now: null };

let numEngines = 0;

/**
 * The engine's state besides its scheduler's. All parts of the engine read and write it.
 *
 * Invariants: `flight` holds the planned steps whose answers were not processed, oldest first, like
 * the scheduler's `inFlight`. Every unfinished request has a stream, or its abort waits in
 * `scheduler.aborts`.
 */
export class EngineState {
  readonly scheduler: Scheduler;
  readonly config: EngineConfig;
  /** Distinguishes the engines of this thread, from 0. */
  readonly number = numEngines++;
  readonly streams = new LiveStreams();
  /**
   * Requests stopped by their clients, whose stops were not counted yet. Their aborts wait in
   * `scheduler.aborts`.
   */
  readonly stops = new Set<Request>();
  readonly flight: Step[] = [];
  readonly counters = new EngineCounters();
  readonly stepTimes = new StepTimes();
  /** The connector's workers; null if there are none. */
  readonly workers: Workers | null;
  /**
   * Whether a round is in progress. A call of the engine then comes from inside the round, for
   * instance from the executor.
   */
  busy = false;
  disposed = false;
  pauseMode: 'none' | 'new' | 'all' = 'none';
  /** A shutdown has begun. */
  draining = false;
  /** The number of texts whose vectors are being made. */
  embedding = 0;
  /**
   * The error that broke the engine, which refuses all further work; null = the engine is whole.
   */
  poison: BlockstepError | null = null;
  /** Rounds that the step loop has begun so far. */
  rounds = 0;
  /**
   * Tokens and preemptions of the last plan. `explain` uses them to say why that plan admitted no
   * more requests.
   */
  lastStep = { totalTokens: 0, preempted: 0 };
  /** Time of the executor's last answer, in milliseconds of the engine's clock. */
  answeredAt = Number.NEGATIVE_INFINITY;
  /** Time of the last `resume`, in milliseconds of the engine's clock. */
  resumedAt = Number.NEGATIVE_INFINITY;
  /** Asks the run loop for another turn. */
  readonly poke: () => void;
  /** Tells the listener that the engine broke. */
  readonly #onBroken: () => void;
  #lastTime = 0;

  constructor(scheduler: Scheduler, config: EngineConfig, listener: StateListener) {
    this.scheduler = scheduler;
    this.config = config;
    this.poke = () => listener.poke();
    this.#onBroken = () => listener.broke();
    const countFailure = this.countWorkerFailure.bind(this);
    this.workers = config.workers.length === 0 ? null : new Workers(scheduler, config.workers, countFailure);
    // Inside a round the step loop judges the error, after the parts of the round have returned.
    scheduler.onBroken((cause) => {
      if (!this.busy) this.breakOff(brokenBy(cause));
    });
  }

  /**
   * The time of the engine's clock, in milliseconds. If the clock throws, or returns no finite
   * number, the last time is returned; the scheduler reports the fault.
   */
  now(): number {
    const before = enterCallee('now');
    try {
      const now = this.scheduler.config.now();
      if (Number.isFinite(now)) this.#lastTime = now;
    } catch {
      // The last time is kept.
    } finally {
      leaveCallee(before);
    }
    return this.#lastTime;
  }

  /** The stage of the engine's life. */
  get state(): 'open' | 'draining' | 'broken' | 'disposed' {
    if (this.disposed) return 'disposed';
    if (this.poison !== null) return 'broken';
    return this.draining ? 'draining' : 'open';
  }

  /** See `Engine.pause`. */
  pause(mode: 'new' | 'all'): void {
    this.forClient((scheduler) => scheduler.pause(mode));
    this.pauseMode = mode;
  }

  /** See `Engine.resume`. */
  resume(): void {
    this.forClient((scheduler) => scheduler.resume());
    this.pauseMode = 'none';
    this.resumedAt = this.now();
  }

  /** Whether any work is left: requests, steps, aborts, held blocks, rows, and unreported ends. */
  hasWork(): boolean {
    return this.flight.length > 0 || this.scheduler.aborts.size > 0 || this.needsPlan();
  }

  /** Whether another plan can change the state, or has ends to report. */
  needsPlan(): boolean {
    // `hasWork` may call the connector, which may break the scheduler.
    return this.workers?.owesEnds === true || this.change((scheduler) => scheduler.hasWork());
  }

  /**
   * Whether a worker may have something to do although no step is due. One reason is a transfer
   * whose blocks are quarantined. Another is a request that waits for the executor or for the end
   * of a pause: a peer may have to learn of it.
   */
  awaitsReports(): boolean {
    return this.workers !== null && (this.scheduler.hasUses || this.streams.size > 0);
  }

  /** The texts about the next step. */
  get words(): StepWords {
    return STEP_WORDS;
  }

  /** Makes a plan within this call, for the end of the engine. @throws as `Scheduler.schedule` */
  planInPlace(): Plan {
    return this.scheduler.schedule();
  }

  /**
   * Every client's call that changes something begins with this check.
   * @throws ERR_BLOCKSTEP_DISPOSED, or the code that the engine broke with
   */
  checkUsable(): void {
    if (this.disposed) throw disposedError();
    if (this.poison === null) return;
    const { code, message, cause } = this.poison;
    throw new BlockstepError(code, message, { cause });
  }

  /**
   * `checkUsable`, for calls that are refused inside a round. @throws the errors of `checkUsable`;
   * ERR_BLOCKSTEP_REENTRANT
   */
  checkIdle(): void {
    this.checkUsable();
    this.checkNotBusy();
  }

  /** @throws ERR_BLOCKSTEP_REENTRANT from inside a round */
  checkNotBusy(): void {
    if (!this.busy) return;
    const message = `the engine was called from inside ${describeCallee()}`;
    throw new BlockstepError('ERR_BLOCKSTEP_REENTRANT', message);
  }

  /**
   * Counts an error in an answer of the executor. @param step number of the step; -1 = no step.
   * @param what the error, or a text
   */
  countWrongAnswer(step: number, what: unknown): void {
    this.counters.wrongAnswers++;
    if (channels.wrongAnswer.hasSubscribers)
      channels.wrongAnswer.publish({ step, detail: describeError(what) });
  }

  /** Counts a call of a worker that failed. */
  countWorkerFailure(rank: number, method: string, error: unknown): void {
    this.counters.workerFailures++;
    if (channels.workerFailure.hasSubscribers)
      channels.workerFailure.publish({ rank, method, detail: describeError(error) });
  }

  /**
   * The error that a call of the engine throws after an error of the scheduler. If the scheduler is
   * whole, the same error is thrown. Otherwise the engine breaks, and every stream and every later
   * call fails with the returned error.
   * @param isStep the call runs a round; inside a round an anomaly of strict mode breaks the engine
   * too
   */
  judge(error: unknown, isStep: boolean): unknown {
    if (this.disposed) return disposedError();
    if (this.poison !== null) return this.poison;
    const isAnomaly = error instanceof BlockstepError && error.code === 'ERR_BLOCKSTEP_ANOMALY';
    if (!(isStep && isAnomaly) && !this.scheduler.isBroken) return error;
    const broken = brokenBy(error);
    this.breakOff(broken);
    return broken;
  }

  /**
   * Runs a client's call that changes the scheduler, then wakes the run loop.
   * @throws the errors of `checkUsable`, and the result of `judge`
   */
  forClient<T>(act: (scheduler: Scheduler) => T): T {
    this.checkUsable();
    const result = this.change(act);
    this.poke();
    return result;
  }

  /** Runs a call that changes the scheduler outside of a round. @throws the result of `judge` */
  change<T>(act: (scheduler: Scheduler) => T): T {
    const wasWhole = this.poison === null;
    try {
      const result = act(this.scheduler);
      if (wasWhole) this.checkWhole();
      return result;
    } catch (error) {
      throw this.judge(error, false);
    }
  }

  /**
   * Throws if the scheduler broke without an error reaching the engine. A connector or a worker may
   * have caught that error, for instance because a pin could not be logged.
   * @throws ERR_BLOCKSTEP_INVARIANT
   */
  checkWhole(): void {
    this.scheduler.checkWhole();
  }

  /**
   * Breaks the engine for good: every stream fails with this error, steps in flight are abandoned.
   * Only the first error counts.
   */
  breakOff(error: BlockstepError): void {
    if (this.poison !== null || this.disposed) return;
    this.poison = error;
    this.giveUp(error);
    this.#onBroken();
  }

  /** Fails every stream, and drops the steps in flight and the aborts. */
  giveUp(error: BlockstepError): void {
    const now = this.now();
    for (const step of this.flight) step.giveUp();
    this.flight.length = 0;
    this.scheduler.aborts.clear();
    this.stops.clear();
    for (const stream of this.streams.drain()) {
      stream.fail(error, now);
      this.scheduler.backlog.leave(stream.request, now, false);
    }
    // A disposed engine has ended as its owner intended.
    this.streams.totals.close(this.disposed ? null : error);
  }
}

/** The error of calls and streams of a disposed engine. */
export function disposedError(): BlockstepError {
  return new BlockstepError('ERR_BLOCKSTEP_DISPOSED', 'the engine was disposed');
}

/**
 * The error with which an unexpected error breaks an engine. It is unknown how far the step came.
 */
export function brokenBy(error: unknown): BlockstepError {
  const what = 'a step broke off: ';
  // The scheduler has wrapped the error already.
  if (error instanceof BlockstepError && error.message.startsWith(what)) return error;
  return new BlockstepError('ERR_BLOCKSTEP_INVARIANT', what + describeError(error), { cause: error });
}
