import { BlockstepError } from '../base/errors.js';
import { add, addChunk, endSession } from './calls/request-calls.js';
import { SchedulerCalls } from './calls/scheduler-calls.js';
import { complete, fenceTransfers, hold, updateTransfers } from './calls/transfer-calls.js';
import * as take from './calls/validate.js';
import type { ConnectorOutput } from './connector/connector.js';
import { type TakenOutput, takeOutput } from './connector/connector-output.js';
import { scheduleOnDevice } from './device/device-pass.js';
import { GpuQuestion } from './device/gpu-question.js';
import { PendingSchedule } from './device/pending-schedule.js';
import { finishAll } from './life/finish.js';
import { resetPrefixCache } from './life/prefix-reset.js';
import type { SchedulerOptions } from './options/options.js';
import type { ResetOptions, ResetResult } from './options/reset.js';
import { resolveOptions } from './options/resolve-options.js';
import type { Plan } from './plan/plan.js';
import type { StepOutputs } from './plan/step-outputs.js';
import type { Drafts, StepResult } from './plan/step-result.js';
import type { OutstandingKind } from './request/outstanding.js';
import type { RequestInput } from './request/request.js';
import type { ChunkInput, ChunkOutcome, EndOutcome } from './request/session.js';
import { FinishCode } from './request/status.js';
import { schedule } from './schedule/schedule.js';
import { SchedulerReader } from './scheduler-reader.js';
import type { SchedulerState } from './state/scheduler-state.js';
import { replaceDrafts, setDrafts } from './update/drafts.js';
import { checkOldest, checkUpdatedLast, failStep, update } from './update/update.js';

/**
 * vLLM V1's scheduler over a paged KV cache: decides each step what is computed, and takes what was sampled.
 *
 * One step is `schedule()`, the execution of the plan by the caller, `update(plan, result)`. With `pipelineDepth` > 1 that
 * many plans may be in flight; they are executed and updated in the order of `schedule()`. Nothing here waits, and
 * nothing runs but what the caller calls.
 *
 * Callbacks (the clock, grammars, diagnostics subscribers) must not call back into the scheduler
 * (ERR_BLOCKSTEP_REENTRANT), except `abort`, which is then carried out before the next step.
 */
export class Scheduler extends SchedulerReader {
  readonly #calls: SchedulerCalls;
  readonly #s: SchedulerState;
  /** What the GPU is asked, where it decides; null: the host does. */
  readonly #question: GpuQuestion | null;

  /** @throws ERR_BLOCKSTEP_BAD_ARG for a bad option, ERR_BLOCKSTEP_NO_NATIVE, ERR_BLOCKSTEP_NO_MEMORY */
  constructor(options: SchedulerOptions) {
    const calls = new SchedulerCalls(resolveOptions(options));
    super(calls);
    this.#calls = calls;
    this.#s = calls.state;
    const decides = calls.state.config.placement.authority === 'device';
    this.#question = decides ? new GpuQuestion(calls.state) : null;
  }

  /**
   * Queues a request. Its prompt is copied and hashed.
   * @returns its handle: slot + generation * 2^21, a safe integer that never names a later request
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_DUPLICATE_ID, ERR_BLOCKSTEP_UNFIT; nothing was changed then
   */
  add(input: RequestInput): number {
    return add(this.#calls, input);
  }

  /**
   * Continues a session, a request added as `resumable`, by external id or handle. All that was said so far, but for the
   * last token of the last answer, and the chunk become the prompt of the next answer. A chunk that comes before the
   * last answer has ended is queued. Late and foreign ones are skipped and counted.
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_UNFIT if it can never fit; nothing was changed then
   */
  addChunk(key: string | number, chunk: ChunkInput): ChunkOutcome {
    return addChunk(this.#calls, key, chunk);
  }

  /**
   * Ends the input of a session. The request ends with the answer to its last chunk; one that waits for input ends now,
   * and as in vLLM with `abort` and without a row.
   */
  endSession(key: string | number): EndOutcome {
    return endSession(this.#calls, key);
  }

  /**
   * Aborts requests by external id or handle. Unknown, stale and finished ones are skipped and counted. From inside a
   * callback the abort is only queued, and the answer is empty.
   *
   * The list is carried out as a whole, whatever is in it. In strict mode a handle that was never given out is thrown then. A
   * request that has ended is not: its client could not know. Nor is an unknown id, since ids are forgotten with their requests.
   * @returns the external ids of the requests that ended now, in order
   * @throws ERR_BLOCKSTEP_BAD_ARG for what is neither id nor handle, and nothing was changed; ERR_BLOCKSTEP_ANOMALY
   */
  abort(ids: string | number | Iterable<string | number>): string[] {
    return this.#calls.aborts.byKeys(take.takeAbortKeys(ids));
  }

  /** Aborts every unfinished request, in the order in which they were added. */
  abortAll(): string[] {
    return this.#calls.enter(() => {
      const all = [...this.#s.requests.values()];
      this.#calls.log?.abort(this.#s.now, null);
      return finishAll(this.#s, all, FinishCode.abort);
    });
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
      if (this.#question !== null) {
        throw new BlockstepError('ERR_BLOCKSTEP_AUTHORITY', 'the GPU decides: await scheduleAsync()');
      }
      this.#calls.beginStep();
      return this.#calls.gate.change(() => schedule(this.#s));
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
    if (this.#question === null) return this.schedule();
    return await this.beginSchedule().settle();
  }

  /** @internal A `scheduleAsync` that whoever began it can also wait for in place. @throws ERR_BLOCKSTEP_AUTHORITY */
  beginSchedule(): PendingSchedule {
    const question = this.#question;
    if (question === null) {
      throw new BlockstepError('ERR_BLOCKSTEP_AUTHORITY', 'the host decides: call schedule()');
    }
    this.#calls.gate.checkFree();
    return new PendingSchedule(
      this.#calls.enterInParts(() => {
        this.#calls.beginStep();
        return scheduleOnDevice(this.#s, question);
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
      const reports = this.#takeReports(output);
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
      const reports = this.#takeReports(output);
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

  /**
   * Takes what the connector's workers report while no step is there to be updated. Requests that end of it have their
   * rows in the next update. Late, duplicate and foreign reports change nothing and are counted.
   * @throws ERR_BLOCKSTEP_BAD_ARG; nothing was changed
   */
  updateTransfers(output: ConnectorOutput): void {
    updateTransfers(this.#calls, output);
  }

  /**
   * For when a peer is gone: the caller vouches that no transfer of the connector (of this child of it) that was begun so
   * far reads or writes any more, because its lane was fenced or its transport torn down. Every use of blocks by it ends:
   * those of finished requests come back, quarantined ones too, and requests that wait for a load have failed to get it.
   * @param begunStep the last step whose plan was handed to the workers. Loads of later steps, and stores of requests that
   * ended behind it, have not begun: they go on. Default: all have begun
   * @returns how many requests it concerned
   */
  fenceTransfers(child?: number, begunStep: number = this.#s.step): number {
    return fenceTransfers(this.#calls, child, begunStep);
  }

  /** Forgets all cached prefixes; see `ResetResult`. Never throws because of what is running. */
  resetPrefixCache(options: ResetOptions = {}): ResetResult {
    return this.#calls.enter(() => {
      const taken = take.takeResetOptions(options);
      this.#calls.log?.reset(taken);
      return this.#calls.gate.change(() => resetPrefixCache(this.#s, taken));
    });
  }

  /** Admits nothing new (`new`), or schedules nothing at all (`all`), until `resume`. */
  pause(mode: 'new' | 'all'): void {
    this.#setPause(take.takePauseMode(mode));
  }

  resume(): void {
    this.#setPause('none');
  }

  /**
   * Registers a use of a request's blocks by something else than the request: they go back only when it has finished and
   * every registered use has ended. A running request with such a use is preempted only if there is no other; the blocks
   * that it had then stay pinned. A `load` also keeps a request that waits for its KV waiting.
   * @param owner names the use among those of its kind, for instance a transfer's job
   * @returns false, and counted, if the handle is stale or the use is registered already
   */
  hold(handle: number, kind: OutstandingKind, owner: string): boolean {
    return hold(this.#calls, handle, kind, owner);
  }

  /**
   * Ends a use registered by `hold`. Late, duplicate and foreign completions change nothing.
   * @returns false, and counted, if there is no such use
   */
  complete(handle: number, kind: OutstandingKind, owner: string): boolean {
    return complete(this.#calls, handle, kind, owner);
  }

  /**
   * Frees the native memory. Idempotent. Afterwards every call that would change something or reads the native side
   * throws ERR_BLOCKSTEP_DISPOSED; what is known of requests stays readable.
   */
  dispose(): void {
    this.#calls.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** Reports that come with a step. The aborts that wait are carried out between reading them and writing them down. */
  #takeReports(output: ConnectorOutput | null | undefined): TakenOutput | null {
    const reports = takeOutput(this.#s.anomalies, output);
    this.#calls.aborts.drainInCall();
    if (reports !== null) this.#calls.log?.transfers(this.#s.now, reports, true);
    return reports;
  }

  #setPause(mode: 'none' | 'new' | 'all'): void {
    this.#calls.enter(() => {
      this.#calls.log?.pause(mode);
      this.#s.pauseMode = mode;
    });
  }
}
