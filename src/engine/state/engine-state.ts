import { channels } from '../../base/channels.js';
import { BlockstepError, describeError } from '../../base/errors.js';
import { describeCallee, enterCallee, leaveCallee } from '../../base/foreign/callee.js';
import type { Request } from '../../scheduler/request/request.js';
import type { Scheduler } from '../../scheduler/scheduler.js';
import { LiveStreams } from '../streams/live-streams.js';
import { Workers } from '../workers/workers.js';
import { EngineCounters } from './counters.js';
import type { EngineConfig } from './options.js';
import type { PendingRound } from './pending-round.js';
import type { Step } from './step.js';
import { StepTimes } from './step-times.js';

/** What the state tells the parts of the engine that are built over it. */
export interface StateListener {
  /** Something happened that the run loop may have to act on. */
  poke(): void;
  /** The engine broke: it refuses all further work. */
  broke(): void;
}

/**
 * Everything that an engine knows besides its scheduler's state. The parts of the engine share it: they read and write it.
 *
 * Invariants: `flight` holds the steps that were submitted and whose answers were not taken, oldest first, as the scheduler's
 * `inFlight` does. Every unfinished request has a stream, or its abort waits in `scheduler.aborts`.
 */
export class EngineState {
  readonly scheduler: Scheduler;
  readonly config: EngineConfig;
  readonly streams = new LiveStreams();
  /** Requests that their clients stopped, and whose stops were not counted yet. Their aborts wait in `scheduler.aborts`. */
  readonly stops = new Set<Request>();
  readonly flight: Step[] = [];
  readonly counters = new EngineCounters();
  readonly stepTimes = new StepTimes();
  /** The connector's workers; null if there are none. */
  readonly workers: Workers | null;
  /** A round is being made: whoever calls the engine now does so from inside it, for instance from the executor. */
  busy = false;
  disposed = false;
  pauseMode: 'none' | 'new' | 'all' = 'none';
  /** A shutdown has begun. */
  draining = false;
  /** Why the engine refuses all further work. */
  poison: BlockstepError | null = null;
  /** Rounds that the step loop has begun so far. */
  rounds = 0;
  /** Of the last plan: its tokens and preemptions. They tell `explain` why that plan admitted nothing more. */
  lastStep = { totalTokens: 0, preempted: 0 };
  /** When the executor answered last, by the engine's clock. */
  answeredAt = Number.NEGATIVE_INFINITY;
  /** Where the GPU decides: the round whose plan it has not decided yet; null = there is none. */
  pendingRound: PendingRound<unknown> | null = null;
  /** Makes the run loop look again: something happened that it may have to act on. */
  readonly poke: () => void;
  /** Tells of the moment in which the engine broke. */
  readonly #onBroken: () => void;
  #lastTime = 0;

  constructor(scheduler: Scheduler, config: EngineConfig, listener: StateListener) {
    this.scheduler = scheduler;
    this.config = config;
    this.poke = () => listener.poke();
    this.#onBroken = () => listener.broke();
    const countFailure = this.countWorkerFailure.bind(this);
    this.workers = config.workers.length === 0 ? null : new Workers(scheduler, config.workers, countFailure);
    // Inside a round the step loop judges the error, once the round has put down what it has in hand.
    scheduler.onBroken((cause) => {
      if (!this.busy) this.breakOff(brokenBy(cause));
    });
  }

  /** The time. A clock that throws, or returns no finite number, counts as standing still: the scheduler complains about it. */
  now(): number {
    const before = enterCallee('now');
    try {
      const now = this.scheduler.config.now();
      if (Number.isFinite(now)) this.#lastTime = now;
    } catch {
      // See above.
    } finally {
      leaveCallee(before);
    }
    return this.#lastTime;
  }

  /** What becomes of the engine. */
  get state(): 'open' | 'draining' | 'broken' | 'disposed' {
    if (this.disposed) return 'disposed';
    if (this.poison !== null) return 'broken';
    return this.draining ? 'draining' : 'open';
  }

  /** Whether anything is left to be done: requests, steps, aborts, held blocks, rows and ends that were not told yet. */
  hasWork(): boolean {
    return this.flight.length > 0 || this.scheduler.aborts.size > 0 || this.needsPlan();
  }

  /** Whether another plan can change anything, or tell anybody anything. */
  needsPlan(): boolean {
    // To ask for work may call the connector, which may break the scheduler.
    return this.workers?.owesEnds === true || this.change((scheduler) => scheduler.hasWork());
  }

  /**
   * Whether a worker may still report the end of a transfer that no step waits for: its blocks are quarantined, or everything
   * is paused.
   */
  awaitsReports(): boolean {
    return this.workers !== null && this.scheduler.hasUses;
  }

  /**
   * To be called first by every client's call that changes something. A round that waits for the GPU is carried to its end here,
   * so that no such call meets a plan that is half made.
   * @throws ERR_BLOCKSTEP_DISPOSED, or the code that the engine was poisoned with
   */
  checkUsable(): void {
    this.pendingRound?.tryToFinish();
    if (this.disposed) throw disposedError();
    if (this.poison === null) return;
    const { code, message, cause } = this.poison;
    throw new BlockstepError(code, message, { cause });
  }

  /** `checkUsable` for what may not be done from inside a round. @throws what `checkUsable` throws; ERR_BLOCKSTEP_REENTRANT */
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

  /** Counts an answer of the executor that makes no sense, wholly or in part. @param step its number; -1 = of no step */
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
   * What a call of the engine throws for an error that came out of the scheduler. If the scheduler is whole that is the error
   * itself. Otherwise it is the error that the engine is broken with from now on; every stream fails with it.
   * @param isStep the call makes a round: in it an anomaly of strict mode breaks the engine too
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
   * Runs a client's call that changes the scheduler, and has the run loop look at what follows from it.
   * @throws as `checkUsable` and `judge` say
   */
  forClient<T>(act: (scheduler: Scheduler) => T): T {
    this.checkUsable();
    const result = this.change(act);
    this.poke();
    return result;
  }

  /** Runs a call that changes the scheduler outside of a step. @throws as `judge` says */
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
   * Finds a scheduler that broke unheard: a connector or a worker may have caught the error, for instance of a pin that could
   * not be logged.
   * @throws ERR_BLOCKSTEP_INVARIANT
   */
  checkWhole(): void {
    this.scheduler.checkWhole();
  }

  /** Breaks the engine for good: every stream fails with this error, steps in flight are given up. The first error counts. */
  breakOff(error: BlockstepError): void {
    if (this.poison !== null || this.disposed) return;
    this.poison = error;
    this.giveUp(error);
    this.#onBroken();
  }

  /** Fails every stream, and forgets the steps in flight and the aborts. */
  giveUp(error: BlockstepError): void {
    const now = this.now();
    for (const step of this.flight) step.giveUp();
    this.flight.length = 0;
    this.scheduler.aborts.clear();
    this.stops.clear();
    for (const stream of this.streams.takeAll()) {
      stream.fail(error, now);
      this.scheduler.backlog.leave(stream.request, now, false);
    }
  }
}

export function disposedError(): BlockstepError {
  return new BlockstepError('ERR_BLOCKSTEP_DISPOSED', 'the engine was disposed');
}

/** The error that an engine is broken with by an error that nobody expected: it is in doubt what was done. */
export function brokenBy(error: unknown): BlockstepError {
  const what = 'a step broke off: ';
  // The scheduler has put it so already.
  if (error instanceof BlockstepError && error.message.startsWith(what)) return error;
  return new BlockstepError('ERR_BLOCKSTEP_INVARIANT', what + describeError(error), { cause: error });
}
