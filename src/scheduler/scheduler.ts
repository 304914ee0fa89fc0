import { checkInteger } from '../base/errors.js';
import { DecidedCalls } from './authority/decided-calls.js';
import {
  type CompleteChunk,
  completeChunk,
  type NamelessRequest,
  paramsOf,
  parseChunk,
  parseParams,
  parseRequest,
} from './calls/parse-request.js';
import { resetPrefixCache } from './calls/prefix-reset.js';
import { SchedulerCalls } from './calls/scheduler-calls.js';
import * as validate from './calls/validate.js';
import type { ConnectorOutput } from './connector/connector.js';
import { type ParsedOutput, parseOutput } from './connector/connector-output.js';
import { addRequest } from './life/add-request.js';
import { addChunk, endSession } from './life/chunks.js';
import { finishFromOutside } from './life/finish.js';
import { fenceTransfers } from './loads/fence.js';
import { complete, hold } from './loads/hold.js';
import type { SchedulerOptions } from './options/options.js';
import type { ResetOptions, ResetResult } from './options/reset.js';
import { resolveOptions } from './options/resolve-options.js';
import type { Plan } from './plan/plan.js';
import type { StepOutputs } from './plan/step-outputs.js';
import type { Drafts, StepResult } from './plan/step-result.js';
import type { OutstandingKind } from './request/outstanding.js';
import type { ParsedRequest, Request, RequestInput } from './request/request.js';
import type { Chunk, ChunkInput, ChunkOutcome, EndOutcome } from './request/session.js';
import { FinishCode } from './request/status.js';
import { SchedulerReader } from './scheduler-reader.js';
import { getOpenSession } from './state/guards.js';
import type { SchedulerState } from './state/scheduler-state.js';
import { replaceDrafts, setDrafts } from './update/drafts.js';
import { checkOldest, checkUpdatedLast, failStep, update, updateTransfers } from './update/update.js';

/**
 * vLLM V1's scheduler over a paged KV cache: decides what each step computes, and processes the
 * sampled tokens.
 *
 * One step is `schedule()`, the execution of the plan by the caller, and `update(plan, result)`. Up
 * to `pipelineDepth` plans may be in flight; they are executed and updated in the order of
 * `schedule()`. Nothing runs in the background.
 *
 * Callbacks (clock, grammars, connector, diagnostics subscribers) must not call back into the
 * scheduler (ERR_BLOCKSTEP_REENTRANT), except `abort`, which is then carried out before the next
 * step.
 */
export class Scheduler extends SchedulerReader {
  readonly #calls: SchedulerCalls;
  readonly #s: SchedulerState;

  /** @throws ERR_BLOCKSTEP_BAD_ARG for a bad option, ERR_BLOCKSTEP_NO_NATIVE, ERR_BLOCKSTEP_NO_MEMORY */
  constructor(options: SchedulerOptions) {
    const config = resolveOptions(options);
    const Calls = config.placement.authority === 'device' ? DecidedCalls : SchedulerCalls;
    const calls = new Calls(config);
    super(calls);
    this.#calls = calls;
    this.#s = calls.state;
  }

  /**
   * Queues a request (vLLM `add_request`). Its prompt is copied and hashed.
   * @returns its handle: slot + generation * 2^21, a safe integer that never names a later request
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_DUPLICATE_ID, ERR_BLOCKSTEP_UNFIT; then nothing
   * was changed, and the transfer params were returned to the connector
   */
  add(input: RequestInput): number {
    return this.#calls.enter(() => {
      try {
        return this.#add(parseRequest(this.#s, input)).handle;
      } catch (error) {
        this.#tellRefused(input);
        throw error;
      }
    });
  }

  /**
   * @internal Reads and checks a request, for an engine that makes its own checks before it adds
   * the request by `addParsed`. Must be called in `during`.
   * @param newId makes an id for a request that has none
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_DUPLICATE_ID, ERR_BLOCKSTEP_UNFIT
   */
  parse(input: NamelessRequest, newId: () => string): ParsedRequest {
    return parseRequest(this.#s, input, newId);
  }

  /**
   * @internal Adds the result of `parse`. @throws ERR_BLOCKSTEP_BAD_ARG for a token id; then
   * nothing was changed
   */
  addParsed(parsed: ParsedRequest): Request {
    return this.#calls.enter(() => this.#add(parsed));
  }

  /**
   * Tells the connector that no request with these transfer params will come
   * (`SchedulerConnector.requestRefused`), so that the remote resources that they name can be
   * freed. Meant for params that will not be submitted. Without effect if the connector lacks this
   * method.
   * @param transferParams from a request's result
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  giveBack(transferParams: Readonly<Record<string, unknown>>): void {
    this.#calls.enter(() => this.#s.connector?.tellRefused(parseParams(transferParams)));
  }

  /**
   * Adds a chunk to a session, a request added as `resumable`, by external id or handle. The text
   * so far, without the last token of the last answer, and the chunk become the prompt of the next
   * answer. A chunk that comes before the last answer has ended is queued. A chunk for a request
   * that is not an open session is skipped and counted.
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_UNFIT if it can never fit; then nothing was
   * changed
   */
  addChunk(key: string | number, chunk: ChunkInput): ChunkOutcome {
    return this.#calls.enter(() => {
      const named = validate.parseKey(key);
      const parsed = parseChunk(chunk);
      const request = getOpenSession(this.#s, named, 'chunk');
      return request === undefined
        ? 'skipped'
        : this.#addChunk(request, completeChunk(this.#s, request, parsed));
    });
  }

  /** @internal Like `parse`, for a chunk of an open session; `addParsedChunk` adds it. */
  parseChunk(request: Request, chunk: ChunkInput): CompleteChunk {
    return completeChunk(this.#s, request, parseChunk(chunk));
  }

  /** @internal Adds the result of `parseChunk`. */
  addParsedChunk(request: Request, chunk: CompleteChunk): ChunkOutcome {
    return this.#calls.enter(() => this.#addChunk(request, chunk));
  }

  /**
   * Ends the input of a session: the session ends with the answer to its last chunk. A session that
   * waits for input ends now, with `abort` and, as in vLLM, without a row.
   */
  endSession(key: string | number): EndOutcome {
    return this.#calls.enter(() => {
      const request = getOpenSession(this.#s, validate.parseKey(key), 'end');
      if (request === undefined) return 'skipped';
      this.#calls.log?.end(this.#s.now, request.handle);
      return endSession(this.#s, request);
    });
  }

  /**
   * Aborts requests by external id or handle (vLLM `finish_requests`). Unknown, stale and finished
   * requests are skipped and counted. From inside a callback the abort is only queued, and the
   * result is empty.
   *
   * The whole list is always processed. Strict mode then throws for a handle that was never given
   * out, but not for a finished request or an unknown id. The reason: a request may end and be
   * forgotten before its client learns of it.
   * @returns external ids of the requests that ended now, in order
   * @throws ERR_BLOCKSTEP_BAD_ARG for a value that is neither an id nor a handle, with nothing
   * changed; ERR_BLOCKSTEP_ANOMALY
   */
  abort(ids: string | number | Iterable<string | number>): string[] {
    return this.#calls.aborts.byKeys(validate.parseAbortKeys(ids));
  }

  /** Aborts every unfinished request, in the order in which they were added. */
  abortAll(): string[] {
    return this.#calls.enter(() => {
      const all = [...this.#s.requests.values()];
      this.#calls.log?.abort(this.#s.now, null);
      return finishFromOutside(this.#s, all, FinishCode.abort);
    });
  }

  /**
   * Plans the next step. Execute the plan unless its `totalTokens` is 0, then call `update` (or
   * `failStep`) with it.
   *
   * Plans are updated once each, in the order of `schedule()`. An empty plan (`totalTokens` 0) may
   * also be updated before older plans in flight, or not at all. But rows of requests that ended
   * outside an update are published only by updates. An empty plan waits for its update until a
   * later plan is updated. It also stops waiting when it is the oldest empty plan, `pipelineDepth`
   * plans wait, empty ones included, and `schedule()` is called.
   *
   * A plan is valid until the `schedule()` after its update; an empty plan without one, until the
   * second `schedule()`.
   * @throws ERR_BLOCKSTEP_PIPELINE_FULL when `pipelineDepth` plans are in flight;
   * ERR_BLOCKSTEP_AUTHORITY where the GPU decides
   */
  schedule(): Plan {
    return this.#calls.schedule();
  }

  /**
   * `schedule()` for both authorities. With `authority: 'device'` it waits for the GPU, in turns of
   * the event loop. Until the promise settles everything may be read, an abort is queued, and
   * `dispose` is possible. Every other change is refused (ERR_BLOCKSTEP_DECISION_PENDING).
   * @throws by rejection what `schedule` throws; ERR_BLOCKSTEP_CUDA, ERR_BLOCKSTEP_MIRROR if the
   * GPU is lost, does not answer within a minute, or decides something impossible;
   * ERR_BLOCKSTEP_DISPOSED
   */
  scheduleAsync(): Promise<Plan> {
    const { decided } = this;
    return decided === null ? new Promise((resolve) => resolve(this.schedule())) : decided.scheduleAsync();
  }

  /**
   * @internal The number of steps after the last plan that are sure to equal it, with one more
   * token of context; 0 if none is.
   */
  sureSteps(last: Plan): number {
    const { repeat } = this.#calls;
    return repeat === null ? 0 : repeat.sureSteps(last);
  }

  /**
   * @internal Makes several steps in one native call, with the effect of that many calls of
   * `schedule` and `update`, without the last `update`. In all of them each request samples the
   * same token as in the last step. The rows of the updates are lost.
   * @param steps 1 to `sureSteps`
   * @returns the last plan; null: nothing was done, and `schedule` has to make the next step
   */
  scheduleMany(steps: number): Plan | null {
    const { repeat } = this.#calls;
    return repeat === null ? null : repeat.planMany(steps);
  }

  /** @internal The calls of a scheduler whose plans a GPU decides; null if the host does. */
  get decided(): DecidedCalls | null {
    return this.#calls instanceof DecidedCalls ? this.#calls : null;
  }

  /**
   * Processes the sampled tokens of a plan (vLLM `update_from_output`): appends them, stops
   * requests, frees their blocks.
   * @param result flat, in plan order; `counts[i]` tokens of entry i
   * @param output reports of the connector's workers; see `ConnectorOutput`
   * @returns the rows for clients, valid until the next update
   * @throws ERR_BLOCKSTEP_PLAN_ORDER unless the plan is the oldest in flight, or an empty one that
   * waits for its update; ERR_BLOCKSTEP_BAD_ARG; then nothing was changed
   */
  update(plan: Plan, result: StepResult, output?: ConnectorOutput | null): StepOutputs {
    const { repeat } = this.#calls;
    if (repeat !== null && (output === undefined || output === null)) {
      const repeated = repeat.apply(plan, result);
      if (repeated !== null) return repeated;
    }
    return this.#calls.enter(() => {
      const s = this.#s;
      checkOldest(s, plan);
      const parsed = validate.parseStepResult(plan, result);
      const reports = this.#noteReports(parseOutput(s.anomalies, output), true);
      this.#calls.log?.update(s.now, plan.numRequests, parsed);
      const outputs = this.#calls.gate.change(() => update(s, plan, parsed, reports));
      repeat?.begin(plan);
      return outputs;
    });
  }

  /**
   * Processes the failure of a whole step: the requests of the plan end with `error`. @throws as
   * `update`
   */
  failStep(plan: Plan, output?: ConnectorOutput | null): StepOutputs {
    return this.#calls.enter(() => {
      const s = this.#s;
      checkOldest(s, plan);
      const reports = this.#noteReports(parseOutput(s.anomalies, output), true);
      this.#calls.log?.stepFailed(s.now, plan.numRequests);
      return this.#calls.gate.change(() => failStep(s, plan, reports));
    });
  }

  /**
   * Gives the requests of the plan scheduled last, after its update, the draft tokens to verify
   * next (vLLM
   * `update_draft_token_ids`). Grammars truncate them. Only at `pipelineDepth` 1.
   * @throws ERR_BLOCKSTEP_PLAN_ORDER, ERR_BLOCKSTEP_BAD_ARG; then nothing was changed
   */
  updateDraftTokens(plan: Plan, drafts: Drafts): void {
    this.#calls.enter(() => {
      checkUpdatedLast(this.#s, plan);
      const parsed = validate.parseDrafts(this.#s, plan, drafts);
      this.#calls.log?.drafts(plan.numRequests, parsed);
      this.#calls.gate.change(() => setDrafts(this.#s, plan, parsed));
    });
  }

  /**
   * With `pipelineDepth` > 1: gives a plan with `pendingStructuredOutputTokens`, before it is
   * sampled, the drafts that the previous step made. They replace the placeholders in
   * `plan.draftTokens`. -1 marks a missing draft or one that a grammar refuses, and
   * `plan.numInvalidDraftTokens` counts these. An entry without a grammar may keep its
   * placeholders, uncounted. It does so if no drafts are given for it and its request was not in
   * the previous step (`plan.needsAllTokens`).
   * @throws ERR_BLOCKSTEP_PLAN_ORDER unless every earlier plan was updated; ERR_BLOCKSTEP_BAD_ARG
   */
  replaceDraftTokens(plan: Plan, drafts: Drafts): void {
    this.#calls.enter(() => {
      checkOldest(this.#s, plan);
      const parsed = validate.parseReplacedDrafts(this.#s, plan, drafts);
      this.#calls.log?.replacedDrafts(plan.step, plan.numRequests, parsed);
      this.#calls.gate.change(() => replaceDrafts(this.#s, plan, parsed));
    });
  }

  /**
   * Processes reports of the connector's workers outside an update. Requests that end because of
   * them have their rows in the next update. Late, duplicate and foreign reports change nothing and
   * are counted.
   * @throws ERR_BLOCKSTEP_BAD_ARG; then nothing was changed
   */
  updateTransfers(output: ConnectorOutput): void {
    this.#calls.enter(() => {
      const reports = this.#noteReports(validate.parseTransfers(this.#s.anomalies, output), false);
      this.#calls.gate.change(() => updateTransfers(this.#s, reports));
    });
  }

  /**
   * For a peer that is gone. The caller guarantees that no transfer begun so far by the connector,
   * or by this child of it, reads or writes any more. Its lane was fenced, for instance, or its
   * transport closed. All their uses of blocks end. Finished requests free their blocks, including
   * quarantined ones, and loads in progress have failed.
   * @param begunStep last step whose plan was given to the workers; default: all. Loads of later
   * steps, and stores of requests that ended after it, have not begun and continue
   * @returns number of requests of which a use ended
   */
  fenceTransfers(child?: number, begunStep: number = this.#s.step): number {
    return this.#calls.enter(() => {
      const s = this.#s;
      const which =
        child === undefined ? undefined : checkInteger('child', child, 0, Number.MAX_SAFE_INTEGER);
      const begun = checkInteger('begunStep', begunStep, -1, Number.MAX_SAFE_INTEGER);
      this.#calls.log?.fence(s.now, which, begun);
      return this.#calls.gate.change(() => fenceTransfers(s, which, begun));
    });
  }

  /** Forgets all cached prefixes; see `ResetResult`. Running requests never make it throw. */
  resetPrefixCache(options: ResetOptions = {}): ResetResult {
    return this.#calls.enter(() => {
      const parsed = validate.parseResetOptions(options);
      this.#calls.log?.reset(parsed);
      return this.#calls.gate.change(() => resetPrefixCache(this.#s, parsed));
    });
  }

  /** Until `resume`: admits no request (`new`), or schedules nothing at all (`all`). */
  pause(mode: 'new' | 'all'): void {
    this.#setPause(validate.parsePauseMode(mode));
  }

  /** Ends a pause: the next `schedule` admits and schedules requests again. */
  resume(): void {
    this.#setPause('none');
  }

  /**
   * Registers a use of a request's blocks, for instance by a transfer. The blocks are freed only
   * when the request has finished and every registered use has ended. A running request with a use
   * is never chosen as a victim of preemption. A reset or a failed step or load may preempt it, and
   * its blocks then stay pinned. A use of kind `load` also keeps a request waiting that waits for
   * its KV.
   * @param owner names the use among those of its kind, for instance by the job of a transfer
   * @returns false, and counted, if the handle is stale or the use is registered already
   */
  hold(handle: number, kind: OutstandingKind, owner: string): boolean {
    return this.#calls.enter(() => {
      const use = validate.parseBlockUse(handle, kind, owner);
      this.#calls.log?.hold(this.#s.now, use);
      return hold(this.#s, use);
    });
  }

  /**
   * Ends a use registered by `hold`. Late, duplicate and foreign completions change nothing.
   * @returns false, and counted, if there is no such use
   */
  complete(handle: number, kind: OutstandingKind, owner: string): boolean {
    return this.#calls.enter(() => {
      const use = validate.parseBlockUse(handle, kind, owner);
      this.#calls.log?.complete(this.#s.now, use);
      return complete(this.#s, use);
    });
  }

  /**
   * Frees the native memory. Idempotent. Later calls that change something or read the native core throw
   * ERR_BLOCKSTEP_DISPOSED; the fields of requests stay readable.
   */
  dispose(): void {
    this.#calls.dispose();
  }

  /** Like `dispose`, at the end of a `using` block. */
  [Symbol.dispose](): void {
    this.dispose();
  }

  #add(parsed: ParsedRequest): Request {
    const s = this.#s;
    const { prompt, adapter = '', cacheSalt = '' } = parsed;
    const handle = s.core.native.add(prompt, adapter, cacheSalt);
    this.#calls.log?.add(s.now, parsed);
    return addRequest(s, parsed, handle);
  }

  #addChunk(request: Request, complete: CompleteChunk): ChunkOutcome {
    const s = this.#s;
    const chunk: Chunk = { ...complete, arrivalTime: complete.arrivalTime ?? s.now, addedAt: s.now };
    this.#calls.log?.chunk(s.now, request.handle, chunk);
    return addChunk(s, request, chunk);
  }

  /** Tells the connector that a request will not come. */
  #tellRefused(input: RequestInput): void {
    const { connector } = this.#s;
    const params = connector === null || this.isBroken ? null : paramsOf(input);
    if (params !== null) connector?.tellRefused(params);
  }

  /** Writes reports to the log, behind the aborts that wait. @param isOfStep whether they come with the result of a step */
  #noteReports<T extends ParsedOutput | null>(reports: T, isOfStep: boolean): T {
    this.#calls.aborts.drainInCall();
    if (reports !== null) this.#calls.log?.transfers(this.#s.now, reports, isOfStep);
    return reports;
  }

  #setPause(mode: 'none' | 'new' | 'all'): void {
    this.#calls.enter(() => {
      this.#calls.log?.pause(mode);
      this.#s.pauseMode = mode;
    });
  }
}
