import { type Core, slotOf } from '../core/core.js';
import { BlockstepError, show } from '../core/errors.js';
import { abort, abortTargets } from './abort.js';
import { complete, hold } from './block-use.js';
import { CallGate } from './call-gate.js';
import { channels } from './channels.js';
import { type Drafts, setDrafts } from './drafts.js';
import { finishAll } from './finish.js';
import { purgeWaiting } from './guards.js';
import { hasWork, type Inspection, inspect, numUnfinished } from './inspection.js';
import { type LogSink, LogWriter } from './log.js';
import { resolveOptions, type SchedulerConfig, type SchedulerOptions } from './options.js';
import type { OutstandingKind } from './outstanding.js';
import type { Plan } from './plan.js';
import { type ResetResult, resetPrefixCache } from './prefix-reset.js';
import { Request, type RequestInput } from './request.js';
import { SchedulerState } from './scheduler-state.js';
import { readStats, type SchedulerStats } from './stats.js';
import { FinishReason } from './status.js';
import { checkOldest, checkUpdatedLast, failStep, schedule, update } from './step.js';
import type { StepOutputs } from './step-outputs.js';
import type { StepResult } from './update-pass.js';
import {
  takeAbortKeys,
  takeBlockUse,
  takeDrafts,
  takePauseMode,
  takeRequest,
  takeResetOptions,
  takeStepResult,
} from './validate.js';
import { verifyScheduler } from './verify.js';

/**
 * vLLM V1's scheduler over a paged KV cache: decides each step what is computed, and takes what was sampled.
 *
 * One step is `schedule()`, the execution of the plan by the caller, `update(plan, result)`. With `pipelineDepth` > 1 that
 * many plans may be in flight; they are executed and updated in the order of `schedule()`. Nothing here waits, and
 * nothing runs but what the caller calls.
 *
 * Callbacks (the clock, diagnostics subscribers) must not call back into the scheduler (ERR_BLOCKSTEP_REENTRANT), except
 * `abort`, which is then carried out before the next step.
 */
export class Scheduler {
  readonly #s: SchedulerState;
  readonly #log: LogWriter | null;
  readonly #lateAborts = new Set<Request>();
  readonly #gate = new CallGate();

  /** @throws ERR_BLOCKSTEP_BAD_ARG for a bad option, ERR_BLOCKSTEP_NO_NATIVE, ERR_BLOCKSTEP_NO_MEMORY */
  constructor(options: SchedulerOptions) {
    const config = resolveOptions(options);
    this.#s = new SchedulerState(config);
    this.#log = config.log === null ? null : this.#openLog(config.log);
  }

  get config(): SchedulerConfig {
    return this.#s.config;
  }

  /** The native block manager and tables, to be read. Whoever changes it breaks the scheduler. */
  get core(): Core {
    return this.#s.core;
  }

  /**
   * Queues a request. Its prompt is copied and hashed.
   * @returns its handle: slot + generation * 2^21, a safe integer that never names a later request
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_DUPLICATE_ID, ERR_BLOCKSTEP_UNFIT; nothing was changed then
   */
  add(input: RequestInput): number {
    return this.#enter(() => {
      const s = this.#s;
      const request = takeRequest(s, input);
      const handle = s.core.native.add(request.prompt, request.adapter ?? '', request.cacheSalt ?? '');
      this.#log?.add(s.now, request);
      const added = new Request(request, handle, slotOf(handle), s.requestLimits());
      s.track(added);
      s.queues.pushWaiting(added);
      if (channels.add.hasSubscribers) {
        channels.add.publish({ id: added.id, handle, numPromptTokens: added.numPromptTokens });
      }
      return handle;
    });
  }

  /**
   * Aborts requests by external id or handle. Unknown, stale and finished ones are skipped and counted. From inside a
   * callback the abort is only queued, and the answer is empty.
   * @returns the external ids of the requests that ended now, in order
   */
  abort(ids: string | number | Iterable<string | number>): string[] {
    const keys = takeAbortKeys(ids);
    if (this.#gate.isBusy) {
      // Resolved now: the id may belong to another request by then.
      for (const target of abortTargets(this.#s, keys)) this.#lateAborts.add(target);
      return [];
    }
    return this.#enter(() => this.#abort(abortTargets(this.#s, keys)));
  }

  /** Aborts every unfinished request, in the order in which they were added. */
  abortAll(): string[] {
    return this.#enter(() => {
      const all = [...this.#s.requests.values()];
      this.#log?.abort(this.#s.now, null);
      return finishAll(this.#s, all, FinishReason.abort);
    });
  }

  /**
   * Plans the next step. Execute it unless `totalTokens` is 0, then call `update` with it. An empty plan may be left
   * without an update, but rows of requests that ended inside `schedule` go out with updates only. The plan is valid until
   * the `schedule()` after its update.
   * @throws ERR_BLOCKSTEP_PIPELINE_FULL when `pipelineDepth` plans are in flight
   */
  schedule(): Plan {
    return this.#enter(() => {
      const s = this.#s;
      if (s.inFlight.length >= s.config.pipelineDepth) {
        throw new BlockstepError(
          'ERR_BLOCKSTEP_PIPELINE_FULL',
          `${s.inFlight.length} plans are in flight already`,
        );
      }
      this.#drainLateAborts();
      if (s.config.strict) {
        purgeWaiting(s);
        s.anomalies.throwFirst();
      }
      this.#log?.schedule(s.now);
      return this.#gate.change(() => schedule(s));
    });
  }

  /**
   * Takes what a plan's execution sampled: appends it, stops requests, frees their blocks. Clients' rows are in the
   * returned object, which is valid until the next update.
   * @param result flat and in plan order; `counts[i]` tokens of entry i
   * @throws ERR_BLOCKSTEP_PLAN_ORDER unless it is the oldest plan in flight; ERR_BLOCKSTEP_BAD_ARG; nothing was changed
   */
  update(plan: Plan, result: StepResult): StepOutputs {
    return this.#enter(() => {
      const s = this.#s;
      checkOldest(s, plan);
      const taken = takeStepResult(plan, result);
      this.#drainLateAborts();
      this.#log?.update(s.now, plan.numRequests, taken);
      return this.#gate.change(() => update(s, plan, taken));
    });
  }

  /**
   * Takes the failure of a whole step instead of its result: its requests end with `error`.
   * @throws ERR_BLOCKSTEP_PLAN_ORDER unless it is the oldest plan in flight
   */
  failStep(plan: Plan): StepOutputs {
    return this.#enter(() => {
      const s = this.#s;
      checkOldest(s, plan);
      this.#drainLateAborts();
      this.#log?.stepFailed(s.now);
      return this.#gate.change(() => failStep(s, plan));
    });
  }

  /**
   * Gives the requests of the plan that was just updated the draft tokens to verify next. Steps in flight draft by
   * themselves, so with `pipelineDepth` > 1 there is nothing to give.
   */
  updateDraftTokens(plan: Plan, drafts: Drafts): void {
    this.#enter(() => {
      const s = this.#s;
      checkUpdatedLast(s, plan);
      const taken = takeDrafts(s, plan, drafts);
      this.#log?.drafts(plan.numRequests, taken);
      setDrafts(s, plan, taken);
    });
  }

  /** Forgets all cached prefixes; see `ResetResult`. Never throws because of what is running. */
  resetPrefixCache(options: { resetRunning?: boolean } = {}): ResetResult {
    return this.#enter(() => {
      const resetRunning = takeResetOptions(options);
      this.#log?.reset(resetRunning);
      return this.#gate.change(() => resetPrefixCache(this.#s, resetRunning));
    });
  }

  /** Admits nothing new (`new`), or schedules nothing at all (`all`), until `resume`. */
  pause(mode: 'new' | 'all'): void {
    this.#setPause(takePauseMode(mode));
  }

  resume(): void {
    this.#setPause('none');
  }

  /**
   * Registers a use of a request's blocks by something else than the request: they go back only when it has finished and
   * every registered use has ended. A preemption takes a running request's blocks all the same.
   * @param owner names the use among those of its kind, for instance a transfer's job
   * @returns false, and counted, if the handle is stale or the use is registered already
   */
  hold(handle: number, kind: OutstandingKind, owner: string): boolean {
    return this.#enter(() => {
      const use = takeBlockUse(handle, kind, owner);
      this.#log?.hold(this.#s.now, use);
      return hold(this.#s, use);
    });
  }

  /**
   * Ends a use registered by `hold`. Late, duplicate and foreign completions change nothing.
   * @returns false, and counted, if there is no such use
   */
  complete(handle: number, kind: OutstandingKind, owner: string): boolean {
    return this.#enter(() => {
      const use = takeBlockUse(handle, kind, owner);
      this.#log?.complete(this.#s.now, use);
      return complete(this.#s, use);
    });
  }

  get numRunning(): number {
    return this.#s.queues.running.length;
  }

  get numWaiting(): number {
    return this.#s.queues.waiting.length;
  }

  get numSkipped(): number {
    return this.#s.queues.skipped.length;
  }

  /** Requests that a step could bring further (vLLM get_num_unfinished_requests): none while all is paused. */
  get numUnfinished(): number {
    return numUnfinished(this.#s);
  }

  /** Whether stepping can still change anything: requests, plans in flight, rows or ids not reported yet, held blocks. */
  hasWork(): boolean {
    return hasWork(this.#s) || this.#lateAborts.size > 0;
  }

  /** The unfinished request with this external id. */
  get(id: string): Request | undefined {
    return this.#s.requests.get(id);
  }

  /** The request that a handle names while it is unfinished or holds blocks; undefined when stale. */
  getByHandle(handle: number): Request | undefined {
    return this.#s.incarnation(handle);
  }

  stats(): SchedulerStats {
    this.#gate.checkUsable();
    return readStats(this.#s);
  }

  inspect(): Inspection {
    return inspect(this.#s);
  }

  /** Checks every invariant of the scheduler and of the native core. @throws ERR_BLOCKSTEP_INVARIANT */
  verify(): void {
    this.#enter(() => this.#gate.change(() => verifyScheduler(this.#s)));
  }

  /** Canonical digest of the native state: equal for equal free queues, references, hashes and rows. */
  digest(): bigint {
    this.#gate.checkUsable();
    this.#s.core.flush();
    return this.#s.core.native.digest();
  }

  /**
   * Frees the native memory. Idempotent. Afterwards every call that would change something or reads the native side
   * throws ERR_BLOCKSTEP_DISPOSED; what is known of requests stays readable.
   */
  dispose(): void {
    this.#gate.dispose(() => {
      try {
        this.#flushLog();
      } finally {
        this.#s.core.dispose();
      }
    });
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #abort(targets: ReadonlySet<Request>): string[] {
    const live = Array.from(targets).filter((target) => !target.isFinished);
    if (live.length === 0) return [];
    this.#log?.abort(
      this.#s.now,
      live.map((target) => target.handle),
    );
    return abort(this.#s, live);
  }

  #drainLateAborts(): void {
    while (this.#lateAborts.size > 0) {
      const targets = new Set(this.#lateAborts);
      this.#lateAborts.clear();
      this.#abort(targets);
    }
  }

  #setPause(mode: 'none' | 'new' | 'all'): void {
    this.#enter(() => {
      this.#log?.pause(mode);
      this.#s.pauseMode = mode;
    });
  }

  /** Runs one public call: reads the clock, refuses calls from inside a callback, hands commands to the log. */
  #enter<T>(act: () => T): T {
    this.#gate.enter();
    let result: T;
    try {
      const now = this.#s.config.now();
      if (typeof now !== 'number' || !Number.isFinite(now)) {
        throw new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', `now() must return milliseconds, got ${show(now)}`);
      }
      this.#s.now = now;
      result = act();
      if (this.#log !== null) this.#gate.change(() => this.#flushLog());
    } finally {
      this.#gate.leave();
    }
    this.#s.anomalies.throwFirst();
    return result;
  }

  /** A sink that throws leaves a hole in the log, and poisons. */
  #openLog(sink: LogSink): LogWriter {
    try {
      const log = new LogWriter(
        { write: (bytes) => this.#gate.change(() => sink.write(bytes)) },
        this.config,
      );
      this.#s.core.native.record(true);
      return log;
    } catch (error) {
      this.#s.core.dispose();
      throw error;
    }
  }

  #flushLog(): void {
    if (this.#log === null || this.#gate.isPoisoned) return;
    this.#s.core.flush();
    this.#log.commands(this.#s.core.native.takeLog());
  }
}
