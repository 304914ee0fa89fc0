import { describeCallee, enterCallee, leaveCallee } from '../../base/callee.js';
import { BlockstepError, describeError } from '../../base/errors.js';
import type { Request } from '../../scheduler/request/request.js';
import type { Scheduler } from '../../scheduler/scheduler.js';
import { LiveStreams } from '../streams/live-streams.js';
import { Workers } from '../workers/workers.js';
import { channels } from './channels.js';
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
 * Everything that an engine knows besides its scheduler's state, shared by the parts that read and write it.
 *
 * Invariants: `flight` are the steps that were submitted and not taken, oldest first, as in the scheduler; every unfinished
 * request has a stream, or its abort waits in `scheduler.aborts`.
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

  /** What becomes of the engine. */
  get state(): 'open' | 'draining' | 'broken' | 'disposed' {
    if (this.disposed) return 'disposed';
    if (this.poison !== null) return 'broken';
    return this.draining ? 'draining' : 'open';
  }

  /** Whether anything is outstanding: requests, steps, aborts, rows and ends that nobody was told of, held blocks. */
  hasWork(): boolean {
    return this.flight.length > 0 || this.scheduler.aborts.size > 0 || this.needsPlan();
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
    this.pendingRound?.tryToFinish();
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
   * Somebody may have caught what broke the scheduler, for instance a connector or a worker whose pins were to be logged.
   * @throws ERR_BLOCKSTEP_INVARIANT
   */
  checkWhole(): void {
    this.scheduler.checkWhole();
  }

  /** Ends all work for good: every stream fails with this error, steps in flight are given up. The first error counts. */
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

/** What breaks an engine: an error that nobody expected, which leaves in doubt what was done. */
export function brokenBy(error: unknown): BlockstepError {
  const what = 'a step broke off: ';
  // The scheduler says so itself of what it was broken by before.
  if (error instanceof BlockstepError && error.message.startsWith(what)) return error;
  return new BlockstepError('ERR_BLOCKSTEP_INVARIANT', what + describeError(error), { cause: error });
}
