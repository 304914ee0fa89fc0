import { BlockstepError } from '../../base/errors.js';
import type { Plan } from '../../scheduler/plan/plan.js';
import type { Scheduler } from '../../scheduler/scheduler.js';
import type { HealthWatch } from '../inspect/health.js';
import { RunLoop } from '../loop/run-loop.js';
import { StepLoop, type StepReport } from '../loop/step-loop.js';
import { brokenBy, EngineState, type StepWords } from '../state/engine-state.js';
import { PendingRound } from './pending-round.js';

type Deciding = NonNullable<Scheduler['decided']>;

/**
 * The state of an engine whose plans a GPU decides. A client's call that changes something first
 * completes the pending round, in place, so that the call never meets a half-made plan. The wait is
 * short: a GPU decides in microseconds.
 */
class DecidedState extends EngineState {
  /** The round whose plan is not decided yet; null = none. */
  round: PendingRound | null = null;

  override checkUsable(): void {
    this.round?.tryToFinish();
    super.checkUsable();
  }

  override planInPlace(): Plan {
    return (this.scheduler.decided as Deciding).scheduleInPlace();
  }

  override get words(): StepWords {
    const now = this.scheduler.isDeciding ? 'the GPU is deciding the next step' : null;
    return { call: 'stepAsync()', next: 'the GPU decides, in the next step', now };
  }
}

/** The rounds of such an engine. The event loop continues while the plan is decided. */
class DecidedSteps extends StepLoop {
  readonly #e: DecidedState;

  constructor(e: DecidedState, health: HealthWatch) {
    super(e, health);
    this.#e = e;
  }

  /** @throws ERR_BLOCKSTEP_AUTHORITY, since a round takes more than one call; nothing was changed */
  override step(): never {
    this.#e.checkIdle();
    throw new BlockstepError('ERR_BLOCKSTEP_AUTHORITY', 'the GPU decides: await stepAsync(), or run()');
  }

  /** See `Engine.stepAsync`. @param takes see `StepLoop.step` */
  override async stepAsync(takes = true): Promise<StepReport> {
    const e = this.#e;
    e.checkIdle();
    const pending = this.#part(() => (this.begin() ? e.scheduler.decided : null)?.begin() ?? null);
    if (pending === null) return this.#part(() => this.end(null, takes));
    const round = new PendingRound(
      () => this.#part(() => pending.finish()),
      (plan) => {
        e.round = null;
        return this.#part(() => this.end(plan, takes));
      },
    );
    e.round = round;
    // If this rejects, `finish` throws the same error.
    await pending.settle().catch(() => {});
    return round.finish();
  }

  /** Runs a part of a round, as `StepLoop.step` runs a whole one. */
  #part<T>(act: () => T): T {
    const e = this.#e;
    e.busy = true;
    try {
      const result = act();
      e.checkWhole();
      return result;
    } catch (error) {
      throw e.judge(error, true);
    } finally {
      e.busy = false;
    }
  }
}

/** The turns of such an engine, one at a time. */
class DecidedRunLoop extends RunLoop {
  readonly #e: DecidedState;
  readonly #steps: DecidedSteps;
  /** A turn waits for the GPU. */
  #turning = false;
  /** Another turn was requested while one waited. */
  #missed = false;

  constructor(e: DecidedState, steps: DecidedSteps, health: HealthWatch, afterTurn: () => number) {
    super(e, steps, health, afterTurn);
    this.#e = e;
    this.#steps = steps;
  }

  protected override turn(): void {
    if (this.#turning) this.#missed = true;
    else void this.#turn();
  }

  /** Like the turn of an engine whose host decides. */
  async #turn(): Promise<void> {
    this.#turning = true;
    let report: StepReport | null = null;
    try {
      let left = this.#e.scheduler.config.pipelineDepth + 1;
      do report = await this.#steps.stepAsync();
      while (report.state === 'progress' && !report.answered && this.running && --left > 0);
      if (report.answered && this.running) await this.#steps.stepAsync(false);
    } catch (error) {
      this.#e.breakOff(brokenBy(error));
    }
    this.#turning = false;
    this.endTurn(report);
    if (!this.#missed) return;
    this.#missed = false;
    this.poke();
  }
}

/** The parts of an engine where the host decides. */
const HOST = { State: EngineState, Steps: StepLoop, Loop: RunLoop };

/** Each of these is constructed with the other parts of this kind. */
const DECIDED = { State: DecidedState, Steps: DecidedSteps, Loop: DecidedRunLoop } as unknown as typeof HOST;

/** The classes of the parts of an engine. No other code selects between host and GPU. */
export function partsOf(isDecided: boolean): typeof HOST {
  return isDecided ? DECIDED : HOST;
}
