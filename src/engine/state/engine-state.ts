import { describeCallee, enterCallee, leaveCallee } from '../../base/callee.js';
import { channels } from '../../base/channels.js';
import { BlockstepError, describeError } from '../../base/errors.js';
import type { Request } from '../../scheduler/request/request.js';
import type { Scheduler } from '../../scheduler/scheduler.js';
import { ExecutorTables } from '../executor/executor-place.js';
import { Notices } from '../executor/notices.js';
import { PlanViews } from '../executor/plan-view.js';
import { Streams } from '../streams/live-streams.js';
import { Workers } from '../workers/workers.js';
import { HealthWatch } from './health.js';
import type { EngineConfig } from './options.js';
import { checkRoom, hasBounds } from './overload.js';
import type { Step } from './step.js';
import { StepTimes } from './step-times.js';

/** Events that leave no trace in the state, counted since the start. */
export class EngineCounters {
  /** Steps that were executed and taken. */
  steps = 0;
  /** Of these, those that failed as a whole. */
  failedSteps = 0;
  /** Requests that the executor failed, by row or by step. */
  failedRequests = 0;
  /** Requests that their clients stopped; the scheduler counts them as aborted. */
  stopped = 0;
  /** Answers of the executor that were no answers, or wrong for some rows. */
  wrongAnswers = 0;
  /** Answers that came after the engine had given the step up. */
  lateAnswers = 0;
  /** Calls of the connector's workers that threw, or answered what cannot be read. */
  workerFailures = 0;
  /** Times that a reader was woken by a step. */
  wakes = 0;
  /** Submissions that were refused with ERR_BLOCKSTEP_OVERLOADED. */
  overloads = 0;
}

/**
 * Everything that an engine knows besides its scheduler's state, shared by the parts that read and write it.
 *
 * Invariants: `flight` are the steps that were submitted and not taken, oldest first, as in the scheduler; every unfinished
 * request has a stream or stands in `aborts`.
 */
export class EngineState {
  readonly scheduler: Scheduler;
  readonly config: EngineConfig;
  readonly tables: ExecutorTables;
  readonly views = new PlanViews();
  readonly streams = new Streams();
  /** Requests to be aborted before the next step, each with the reason that was given; their streams have ended. */
  readonly aborts = new Map<Request, unknown>();
  /** Those of them that their clients stopped. */
  readonly stops = new Set<Request>();
  readonly flight: Step[] = [];
  readonly counters = new EngineCounters();
  readonly stepTimes = new StepTimes();
  readonly health: HealthWatch;
  /** The connector's workers; null if there are none. */
  readonly workers: Workers | null;
  readonly notices = new Notices(this);
  /** A step is being made: the executor may be calling. */
  busy = false;
  disposed = false;
  pauseMode: 'none' | 'new' | 'all' = 'none';
  /** A shutdown has begun. */
  draining = false;
  /** Why the engine refuses all further work. */
  poison: BlockstepError | null = null;
  /** Rounds of the step loop so far. */
  rounds = 0;
  /** The step that was submitted last; what the scheduler had left of its budget tells why nothing more was admitted. */
  lastStep = { totalTokens: 0, preempted: 0 };
  /** When the executor was last seen alive: the last answer. */
  answeredAt = Number.NEGATIVE_INFINITY;
  /** Where the GPU decides: carries a step whose plan it has not decided yet to where it is submitted. Never throws. */
  settle: () => void = () => {};
  /** Makes the run loop look again. */
  poke: () => void = () => {};
  /** Whether `run` makes steps, and whether it is about to make one. */
  driver: { readonly isRunning: boolean; readonly isDue: boolean } = { isRunning: false, isDue: false };
  /** Ends the watch over what is unfinished when the process ends. */
  unwatchExit: () => void = () => {};
  #lastTime = 0;

  constructor(scheduler: Scheduler, config: EngineConfig) {
    this.scheduler = scheduler;
    this.config = config;
    this.tables = new ExecutorTables(scheduler, config);
    this.health = new HealthWatch(this);
    this.workers = config.workers.length === 0 ? null : new Workers(this, config.workers);
    if (hasBounds(config)) scheduler.onAdd((numTokens) => checkRoom(this, numTokens));
    // In a step its loop judges, when what the step has in hand is put down.
    scheduler.onBroken((cause) => {
      if (!this.busy) this.breakOff(brokenBy(cause));
    });
  }

  /** The clock; where it throws or tells no time, what it told last. The scheduler is who complains about it. */
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

  /** Whether anything is outstanding: requests, steps, aborts, rows and ends that nobody was told of, held blocks. */
  hasWork(): boolean {
    return this.flight.length > 0 || this.aborts.size > 0 || this.needsPlan();
  }

  /** Whether another plan can change or tell anything. */
  needsPlan(): boolean {
    // It may ask the connector.
    return this.workers?.owesEnds === true || this.change((scheduler) => scheduler.hasWork());
  }

  /**
   * Whether a worker may still report something though nobody waits for it: the end of a transfer whose blocks are
   * quarantined, or of one of a request that is paused.
   */
  awaitsReports(): boolean {
    return this.workers !== null && this.scheduler.hasUses;
  }

  /**
   * What stands before every call that changes something. No such call meets a step that is half made.
   * @throws ERR_BLOCKSTEP_DISPOSED, or the code that the engine was poisoned with
   */
  checkUsable(): void {
    this.settle();
    if (this.disposed) throw disposedError();
    if (this.poison === null) return;
    const { code, message, cause } = this.poison;
    throw new BlockstepError(code, message, { cause });
  }

  /** As `checkUsable`, for what may not be done while a step is being made. @throws ERR_BLOCKSTEP_REENTRANT too */
  checkIdle(): void {
    this.checkUsable();
    this.checkNotBusy();
  }

  /** @throws ERR_BLOCKSTEP_REENTRANT */
  checkNotBusy(): void {
    if (!this.busy) return;
    const message = `the engine was called from inside ${describeCallee()}`;
    throw new BlockstepError('ERR_BLOCKSTEP_REENTRANT', message);
  }

  /** Counts an answer, or a part of one, that makes no sense. */
  countWrongAnswer(step: number, what: unknown): void {
    this.counters.wrongAnswers++;
    if (channels.wrongAnswer.hasSubscribers)
      channels.wrongAnswer.publish({ step, detail: describeError(what) });
  }

  /** Counts a worker that failed. */
  countWorkerFailure(rank: number, method: string, error: unknown): void {
    this.counters.workerFailures++;
    if (channels.workerFailure.hasSubscribers)
      channels.workerFailure.publish({ rank, method, detail: describeError(error) });
  }

  /**
   * What a call of the engine throws for an error that came out of the scheduler: the error itself, if the scheduler is whole.
   * Otherwise the engine is broken, and every stream fails.
   * @param isStep the call makes a step, in which an anomaly of strict mode breaks the engine too
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
   * Somebody may have caught what broke the scheduler, for instance a connector or a worker whose pins were to be logged.
   * @throws ERR_BLOCKSTEP_INVARIANT
   */
  checkWhole(): void {
    if (this.scheduler.isBroken) this.scheduler.abort([]);
  }

  /** Ends all work for good: every stream fails with this error, steps in flight are given up. The first error counts. */
  breakOff(error: BlockstepError): void {
    if (this.poison !== null || this.disposed) return;
    this.poison = error;
    this.giveUp(error);
    this.health.changed();
    this.poke();
  }

  /** Fails every stream, and forgets the steps in flight and the aborts. */
  giveUp(error: BlockstepError): void {
    const now = this.now();
    for (const step of this.flight) step.giveUp();
    this.flight.length = 0;
    this.aborts.clear();
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

/** What breaks an engine: an error that nobody expected, which leaves in doubt what was done. */
export function brokenBy(error: unknown): BlockstepError {
  const what = 'a step broke off: ';
  // The scheduler says so itself of what it was broken by before.
  if (error instanceof BlockstepError && error.message.startsWith(what)) return error;
  return new BlockstepError('ERR_BLOCKSTEP_INVARIANT', what + describeError(error), { cause: error });
}
