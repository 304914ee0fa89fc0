import { badArgument, checkInteger, show } from '../base/errors.js';
import { checkNames } from '../base/known-names.js';
import { CONNECTOR_OUTPUT_FIELDS } from './calls/request-names.js';
import { SchedulerCalls } from './calls/scheduler-calls.js';
import { completeChunk, takeChunk, takeRequest } from './calls/take-request.js';
import * as take from './calls/validate.js';
import type { ConnectorOutput } from './connector/connector.js';
import { takeOutput } from './connector/connector-output.js';
import { addRequest } from './life/add-request.js';
import { addChunk, type ChunkOutcome, type EndOutcome, endSession } from './life/chunks.js';
import { finishAll } from './life/finish.js';
import { type ResetOptions, type ResetResult, resetPrefixCache } from './life/prefix-reset.js';
import { fenceTransfers } from './loads/fence.js';
import { complete, hold } from './loads/hold.js';
import { resolveOptions, type SchedulerOptions } from './options/options.js';
import type { OutstandingKind } from './request/outstanding.js';
import type { RequestInput } from './request/request.js';
import type { ChunkInput } from './request/session.js';
import { FinishCode } from './request/status.js';
import { SchedulerSteps } from './scheduler-steps.js';
import { getOpenSession } from './state/guards.js';
import type { SchedulerState } from './state/scheduler-state.js';
import { updateTransfers } from './update/update.js';

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
export class Scheduler extends SchedulerSteps {
  readonly #calls: SchedulerCalls;
  readonly #s: SchedulerState;

  /** @throws ERR_BLOCKSTEP_BAD_ARG for a bad option, ERR_BLOCKSTEP_NO_NATIVE, ERR_BLOCKSTEP_NO_MEMORY */
  constructor(options: SchedulerOptions) {
    const calls = new SchedulerCalls(resolveOptions(options));
    super(calls);
    this.#calls = calls;
    this.#s = calls.state;
  }

  /**
   * Queues a request. Its prompt is copied and hashed.
   * @returns its handle: slot + generation * 2^21, a safe integer that never names a later request
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_DUPLICATE_ID, ERR_BLOCKSTEP_UNFIT; nothing was changed then
   */
  add(input: RequestInput): number {
    return this.#calls.enter(() => {
      const taken = takeRequest(this.#s, input);
      this.#s.admitNew(taken.prompt.length);
      const { prompt, adapter = '', cacheSalt = '' } = taken;
      const handle = this.#s.core.native.add(prompt, adapter, cacheSalt);
      this.#calls.log?.add(this.#s.now, taken);
      addRequest(this.#s, taken, handle);
      return handle;
    });
  }

  /**
   * Continues a session, a request added as `resumable`, by external id or handle. All that was said so far, but for the
   * last token of the last answer, and the chunk become the prompt of the next answer. A chunk that comes before the
   * last answer has ended is queued. Late and foreign ones are skipped and counted.
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_UNFIT if it can never fit; nothing was changed then
   */
  addChunk(key: string | number, chunk: ChunkInput): ChunkOutcome {
    return this.#calls.enter(() => {
      const named = take.takeKey(key);
      const taken = takeChunk(chunk);
      const request = getOpenSession(this.#s, named, 'chunk');
      if (request === undefined) return 'skipped';
      const complete = completeChunk(this.#s, request, taken);
      this.#calls.log?.chunk(this.#s.now, request.handle, complete);
      return addChunk(this.#s, request, complete);
    });
  }

  /**
   * Ends the input of a session. The request ends with the answer to its last chunk; one that waits for input ends now,
   * and as in vLLM with `abort` and without a row.
   */
  endSession(key: string | number): EndOutcome {
    return this.#calls.enter(() => {
      const request = getOpenSession(this.#s, take.takeKey(key), 'end');
      if (request === undefined) return 'skipped';
      this.#calls.log?.end(this.#s.now, request.handle);
      return endSession(this.#s, request);
    });
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
   * Takes what the connector's workers report while no step is there to be updated. Requests that end of it have their
   * rows in the next update. Late, duplicate and foreign reports change nothing and are counted.
   * @throws ERR_BLOCKSTEP_BAD_ARG; nothing was changed
   */
  updateTransfers(output: ConnectorOutput): void {
    this.#calls.enter(() => {
      const s = this.#s;
      if (typeof output === 'object' && output !== null) checkNames(output, CONNECTOR_OUTPUT_FIELDS);
      const reports = takeOutput(s, output);
      if (reports === null) throw badArgument('output', show(output), 'an object');
      this.#calls.aborts.drainInCall();
      this.#calls.log?.transfers(s.now, reports, false);
      this.#calls.gate.change(() => updateTransfers(s, reports));
    });
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
    return this.#calls.enter(() => {
      const which =
        child === undefined ? undefined : checkInteger('child', child, 0, Number.MAX_SAFE_INTEGER);
      const begun = checkInteger('begunStep', begunStep, -1, Number.MAX_SAFE_INTEGER);
      this.#calls.log?.fence(this.#s.now, which, begun);
      return this.#calls.gate.change(() => fenceTransfers(this.#s, which, begun));
    });
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
    return this.#calls.enter(() => {
      const use = take.takeBlockUse(handle, kind, owner);
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
      const use = take.takeBlockUse(handle, kind, owner);
      this.#calls.log?.complete(this.#s.now, use);
      return complete(this.#s, use);
    });
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

  #setPause(mode: 'none' | 'new' | 'all'): void {
    this.#calls.enter(() => {
      this.#calls.log?.pause(mode);
      this.#s.pauseMode = mode;
    });
  }
}
