import { BlockstepError } from '../base/errors.js';
import type { SchedulerCalls } from './calls/scheduler-calls.js';
import * as take from './calls/validate.js';
import type { ConnectorOutput } from './connector/connector.js';
import { takeOutput } from './connector/connector-output.js';
import { scheduleOnDevice } from './device/device-pass.js';
import { PendingSchedule } from './device/pending-schedule.js';
import type { Plan } from './plan/plan.js';
import type { StepOutputs } from './plan/step-outputs.js';
import { schedule } from './schedule/schedule.js';
import { SchedulerReader } from './scheduler-reader.js';
import type { SchedulerState } from './state/scheduler-state.js';
import { type Drafts, replaceDrafts, setDrafts } from './update/drafts.js';
import { checkOldest, checkUpdatedLast, failStep, update } from './update/update.js';
import type { StepResult } from './update/update-pass.js';

/** The step of a scheduler: a plan is made, and what its execution brought is taken. */
export class SchedulerSteps extends SchedulerReader {
  readonly #calls: SchedulerCalls;
  readonly #s: SchedulerState;

  /** @internal */
  constructor(calls: SchedulerCalls) {
    super(calls);
    this.#calls = calls;
    this.#s = calls.state;
  }

  /**
   * Plans the next step. Execute it unless `totalTokens` is 0, then call `update` (or `failStep`) with it.
   *
   * Every plan is updated once, in the order of `schedule()`. A plan with `totalTokens` 0, an empty one, is less strict: it may
   * be updated at once, before older plans in flight, or left without an update. But rows of requests that ended outside of
   * an update go out with updates only. An empty plan waits for its update until a plan that was scheduled behind it is updated;
   * or until `schedule()` is called while `pipelineDepth` plans wait, empty ones included, and it is the oldest empty one.
   *
   * The plan is valid until the `schedule()` after its update; an empty one that is left without, until the second `schedule()`
   * behind it.
   * @throws ERR_BLOCKSTEP_PIPELINE_FULL when `pipelineDepth` plans are in flight; ERR_BLOCKSTEP_AUTHORITY where the GPU
   * decides
   */
  schedule(): Plan {
    return this.#calls.enter(() => {
      const s = this.#s;
      if (s.batch !== null) {
        throw new BlockstepError('ERR_BLOCKSTEP_AUTHORITY', 'the GPU decides: await scheduleAsync()');
      }
      this.#beginStep();
      return this.#calls.gate.change(() => schedule(s));
    });
  }

  /**
   * `schedule()`, whoever decides: with `authority: 'device'` it waits for the GPU, in turns of the event loop. Until the
   * promise is settled everything may be read; an abort is queued, as from inside a callback; whatever else would change
   * something is refused (ERR_BLOCKSTEP_DECISION_PENDING), but `dispose`.
   * @throws by rejection what `schedule` throws; ERR_BLOCKSTEP_CUDA, ERR_BLOCKSTEP_MIRROR if the GPU is lost, does not answer
   * within a minute, or decides what cannot be; ERR_BLOCKSTEP_DISPOSED
   */
  async scheduleAsync(): Promise<Plan> {
    if (this.#s.batch === null) return this.schedule();
    return await this.beginSchedule().settle();
  }

  /** @internal A `scheduleAsync` that whoever began it can also wait for in place. @throws ERR_BLOCKSTEP_AUTHORITY */
  beginSchedule(): PendingSchedule {
    const { batch } = this.#s;
    if (batch === null)
      throw new BlockstepError('ERR_BLOCKSTEP_AUTHORITY', 'the host decides: call schedule()');
    this.#calls.gate.checkFree();
    return new PendingSchedule(
      this.#calls.enterInParts(() => {
        this.#beginStep();
        return scheduleOnDevice(this.#s, batch);
      }),
    );
  }

  /**
   * Takes what a plan's execution sampled: appends it, stops requests, frees their blocks. Clients' rows are in the
   * returned object, which is valid until the next update.
   * @param result flat and in plan order; `counts[i]` tokens of entry i
   * @param output what the connector's workers report; see `ConnectorOutput`
   * @throws ERR_BLOCKSTEP_PLAN_ORDER unless it is the oldest plan in flight, or an empty one that waits for its update (see
   * `schedule`); ERR_BLOCKSTEP_BAD_ARG; nothing was changed
   */
  update(plan: Plan, result: StepResult, output?: ConnectorOutput | null): StepOutputs {
    return this.#calls.enter(() => {
      const s = this.#s;
      checkOldest(s, plan);
      const taken = take.takeStepResult(plan, result);
      const reports = takeOutput(s, output);
      this.#calls.aborts.drainInCall();
      if (reports !== null) this.#calls.log?.transfers(s.now, reports, true);
      this.#calls.log?.update(s.now, plan.numRequests, taken);
      return this.#calls.gate.change(() => update(s, plan, taken, reports));
    });
  }

  /**
   * Takes the failure of a whole step instead of its result: its requests end with `error`.
   * @throws ERR_BLOCKSTEP_PLAN_ORDER as `update` does
   */
  failStep(plan: Plan, output?: ConnectorOutput | null): StepOutputs {
    return this.#calls.enter(() => {
      const s = this.#s;
      checkOldest(s, plan);
      const reports = takeOutput(s, output);
      this.#calls.aborts.drainInCall();
      if (reports !== null) this.#calls.log?.transfers(s.now, reports, true);
      this.#calls.log?.stepFailed(s.now, plan.numRequests);
      return this.#calls.gate.change(() => failStep(s, plan, reports));
    });
  }

  /**
   * Gives the requests of the plan that was just updated the draft tokens to verify next; a grammar cuts those of its
   * request. Steps in flight draft by themselves, so with `pipelineDepth` > 1 there is nothing to give.
   */
  updateDraftTokens(plan: Plan, drafts: Drafts): void {
    this.#calls.enter(() => {
      checkUpdatedLast(this.#s, plan);
      const taken = take.takeDrafts(this.#s, plan, drafts);
      this.#calls.log?.drafts(plan.numRequests, taken);
      this.#calls.gate.change(() => setDrafts(this.#s, plan, taken));
    });
  }

  /**
   * With `pipelineDepth` > 1: tells a plan with `pendingStructuredOutputTokens`, before it is sampled, what drafts the
   * step before it made. They replace the placeholders in `plan.draftTokens`; where a grammar allows no further one
   * stands -1, and `plan.numInvalidDraftTokens` counts these. An entry without a grammar whose request was not in
   * the step before (`plan.needsAllTokens`) and that is given no drafts keeps its placeholders, and none of them counts.
   * @throws ERR_BLOCKSTEP_PLAN_ORDER unless every plan before it was updated; ERR_BLOCKSTEP_BAD_ARG
   */
  replaceDraftTokens(plan: Plan, drafts: Drafts): void {
    this.#calls.enter(() => {
      checkOldest(this.#s, plan);
      const taken = take.takeReplacedDrafts(this.#s, plan, drafts);
      this.#calls.log?.replacedDrafts(plan.step, plan.numRequests, taken);
      this.#calls.gate.change(() => replaceDrafts(this.#s, plan, taken));
    });
  }

  /** @throws ERR_BLOCKSTEP_PIPELINE_FULL */
  #beginStep(): void {
    const s = this.#s;
    if (s.inFlight.length >= s.config.pipelineDepth) {
      const message = `${s.inFlight.length} plans are in flight already`;
      throw new BlockstepError('ERR_BLOCKSTEP_PIPELINE_FULL', message);
    }
    this.#calls.aborts.drainInCall();
    this.#calls.checkWaiting();
    this.#calls.log?.schedule(s.now);
  }
}
