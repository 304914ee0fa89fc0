import { INSPECT, showFacts } from '../base/inspect.js';
import { takeAbortKeys } from '../scheduler/calls/validate.js';
import type { ResetOptions, ResetResult } from '../scheduler/options/reset.js';
import type { OutstandingKind } from '../scheduler/request/outstanding.js';
import { Scheduler } from '../scheduler/scheduler.js';
import { generate } from './generate.js';
import type {
  GenerateOptions,
  GenerateResult,
  GenerateSource,
  ThrowingGenerateOptions,
} from './generate-options.js';
import { type EngineStats, engineFacts, readEngineStats } from './inspect/engine-stats.js';
import { ExitWatch } from './inspect/exit-watch.js';
import { explain } from './inspect/explain.js';
import { type EngineHealth, HealthWatch } from './inspect/health.js';
import { RunLoop } from './loop/run-loop.js';
import { Shutdown } from './loop/shutdown.js';
import { StepLoop, type StepReport } from './loop/step-loop.js';
import { abortByKeys, abortStream } from './requests/abort.js';
import { Submitter } from './requests/submit.js';
import { EngineState } from './state/engine-state.js';
import {
  type EngineOptions,
  type ShutdownOptions,
  takeEngineOptions,
  takeShutdownOptions,
} from './state/options.js';
import { schedulerOptions } from './state/scheduler-options.js';
import type { RequestResult } from './streams/outputs.js';
import type { RequestStream } from './streams/request-stream.js';
import type { SubmitInput, SubmitOptions } from './streams/submission.js';
import { capturePlace } from './streams/submit-place.js';

/**
 * An inference engine around an executor: takes requests, schedules and executes steps, streams tokens.
 *
 * Either the caller drives it by `step()` (`stepAsync()` where the GPU decides), or it drives itself after `run()`. Whatever an executor or a client does wrong
 * costs the request or the step concerned. What the engine does not survive is an executor that never answers and a broken
 * invariant: then every stream fails with a code, every call throws it, and `health()` says why.
 *
 * From inside `executor.execute` requests may be submitted and aborted, and everything may be read; `step` and `dispose`
 * are refused (ERR_BLOCKSTEP_REENTRANT), as they are from inside anything else that a step calls; the message names it.
 */
export class Engine implements Disposable, AsyncDisposable {
  readonly #e: EngineState;
  readonly #health: HealthWatch;
  readonly #submitter: Submitter;
  readonly #steps: StepLoop;
  readonly #loop: RunLoop;
  readonly #shutdown: Shutdown;
  readonly #exitWatch: ExitWatch;

  /** @throws ERR_BLOCKSTEP_BAD_ARG for a bad option, ERR_BLOCKSTEP_NO_NATIVE, ERR_BLOCKSTEP_NO_MEMORY */
  constructor(options: EngineOptions) {
    const config = takeEngineOptions(options);
    const scheduler = new Scheduler(schedulerOptions(options, config));
    this.#e = new EngineState(scheduler, config, {
      poke: () => this.#loop.poke(),
      broke: () => {
        this.#health.changed();
        this.#loop.poke();
      },
    });
    this.#health = new HealthWatch(this.#e);
    this.#submitter = new Submitter(this.#e);
    this.#steps = new StepLoop(this.#e, this.#health);
    this.#loop = new RunLoop(this.#e, this.#steps, this.#health, () => this.#shutdown.advance());
    this.#exitWatch = new ExitWatch(this.#e, this.#loop);
    this.#shutdown = new Shutdown(this.#e, this.#health, () => {
      this.#exitWatch.end();
      this.#loop.stop(this.#e.poison ?? undefined);
    });
  }

  /** The scheduler inside, to be read. The engine is its one owner: whoever changes it breaks the engine. */
  get scheduler(): Scheduler {
    return this.#e.scheduler;
  }

  /**
   * Submits a request, also while others run. Its prompt, any array-like of token ids, is copied. Never waits.
   * @returns what it brings, to be iterated or awaited; an already aborted signal gives a stream that has ended
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_DUPLICATE_ID, ERR_BLOCKSTEP_UNFIT, ERR_BLOCKSTEP_LIMIT, and beyond what may
   * be queued ERR_BLOCKSTEP_OVERLOADED, with `retryAfterMs`; nothing was changed
   * @throws ERR_BLOCKSTEP_SHUTDOWN once a shutdown has begun, also when it is over; ERR_BLOCKSTEP_DISPOSED after `dispose()`
   */
  submit(request: SubmitInput, options: SubmitOptions = {}): RequestStream {
    return this.#submitter.submit(request, options, capturePlace(SUBMIT));
  }

  /**
   * Batch work: the results of many prompts, in their order. It submits them as the engine gets on, some `2 * maxNumSeqs` at a
   * time, and runs the engine if nobody does. A request that fails loses no other; see `GenerateResult`.
   *
   * ```ts
   * for (const result of await engine.generate(texts.map(encode), { maxTokens: 64 })) {
   *   if (result.finishReason === 'error') console.error(result.error);
   *   else console.log(decode(result.tokens));
   * }
   * ```
   * @param prompts token ids, or requests with what they do not share; an array, or whatever `for await` takes
   * @throws by rejection, with all its requests aborted: the signal's reason, what `prompts` or `onProgress` threw, with `onError:
   * 'throw'` what the first request failed with; ERR_BLOCKSTEP_BAD_ARG, and before it begins what `submit` throws for its engine
   */
  generate(prompts: GenerateSource, options: ThrowingGenerateOptions): Promise<RequestResult[]>;
  generate(prompts: GenerateSource, options?: GenerateOptions): Promise<GenerateResult[]>;
  generate(prompts: GenerateSource, options: GenerateOptions = {}): Promise<GenerateResult[]> {
    const place = capturePlace(GENERATE);
    return generate(this.#e, this.#loop, this.#submitter, { prompts, options, place });
  }

  /**
   * Aborts requests by id or handle. It only queues: their readers are told at once, their blocks go back before the next
   * step. Those that are unknown or have ended are skipped and counted.
   *
   * The list is carried out as a whole, whatever is in it. In strict mode a handle that was never given out is thrown then, and
   * breaks nothing; a request that has ended and an unknown id are not: see `Scheduler.abort`.
   * @param reason what readers shall be rejected with; without one their streams end with `finishReason: 'abort'`
   * @throws ERR_BLOCKSTEP_BAD_ARG for what is neither id nor handle, and nothing was changed; ERR_BLOCKSTEP_ANOMALY
   */
  abort(ids: string | number | Iterable<string | number>, reason?: unknown): void {
    this.#e.checkUsable();
    abortByKeys(this.#e, takeAbortKeys(ids), reason);
  }

  /** Aborts every request that has not ended. */
  abortAll(reason?: unknown): void {
    this.#e.checkUsable();
    for (const stream of [...this.#e.streams]) abortStream(this.#e, stream, reason);
  }

  /**
   * One round: aborts, schedule, execute; then the oldest step, if it was answered: aborts, update, publish. Never waits, and
   * submits at most one step.
   * @throws what the clock throws, with nothing changed
   * @throws ERR_BLOCKSTEP_REENTRANT, ERR_BLOCKSTEP_DISPOSED
   * @throws ERR_BLOCKSTEP_EXECUTOR_HUNG, ERR_BLOCKSTEP_INVARIANT when the engine is broken
   * @throws ERR_BLOCKSTEP_AUTHORITY where the GPU decides: `stepAsync` waits for it
   */
  step(): StepReport {
    return this.#steps.step();
  }

  /**
   * `step()`, whoever decides: with `authority: 'device'` it waits until the GPU has decided. What is called meanwhile and
   * changes something first has the GPU waited for in place.
   * @throws by rejection what `step` throws; ERR_BLOCKSTEP_DISPOSED if the engine was disposed meanwhile
   */
  stepAsync(): Promise<StepReport> {
    return this.#steps.stepAsync();
  }

  /**
   * Makes steps by itself until `stop` or the end of the engine, one a turn of the event loop. While it computes it keeps the
   * process alive; while it waits it does not: a process that is about to end with requests unfinished is warned once an
   * engine (`BlockstepWarning`, code `BLOCKSTEP_UNFINISHED`).
   * @returns a promise that resolves when it was stopped, and rejects when the engine broke; nobody has to listen to it
   * @throws ERR_BLOCKSTEP_DISPOSED, or the code that the engine broke with
   */
  run(): Promise<void> {
    this.#e.checkUsable();
    return this.#loop.start();
  }

  /** Ends `run`, and halts batches until the next. Requests stay as they are; steps in flight are taken when it goes on. Nothing during a shutdown. */
  stop(): void {
    if (!this.#e.draining) this.#loop.stop();
  }

  /** Whether `run` is driving it. */
  get isRunning(): boolean {
    return this.#loop.isRunning;
  }

  /**
   * Ends the engine in good order: takes no new requests, goes on until those it has are done, and held blocks are given
   * back, for at most `drainMs` milliseconds of its clock (default 30,000); then aborts what is left, without a reason, and
   * disposes everything. It drives itself, whoever did before. When it is over `submit` throws ERR_BLOCKSTEP_SHUTDOWN, and what
   * else needs the engine ERR_BLOCKSTEP_DISPOSED.
   * @returns one promise for all calls: the engine and its executor are gone. A later call can shorten the drain.
   * It rejects only if the executor's own `dispose` failed.
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  shutdown(options: ShutdownOptions = {}): Promise<void> {
    const { disposed } = this.#e;
    const ended = this.#shutdown.begin(takeShutdownOptions(options));
    if (!disposed) this.#loop.start();
    return ended;
  }

  /**
   * Ends the engine now: every stream fails with ERR_BLOCKSTEP_DISPOSED after what came before, steps in flight are given up,
   * all memory is freed. Idempotent; a broken engine can be disposed too. `shutdown()` afterwards waits for the executor.
   * @throws ERR_BLOCKSTEP_REENTRANT from inside what a step calls; what the executor's `dispose` throws, when all is freed
   */
  dispose(): void {
    this.#shutdown.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** `shutdown()` with its default. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.shutdown();
  }

  /** Admits nothing new (`new`), or schedules nothing at all (`all`), until `resume`. */
  pause(mode: 'new' | 'all'): void {
    this.#e.forClient((scheduler) => scheduler.pause(mode));
    this.#e.pauseMode = mode;
  }

  resume(): void {
    this.#e.forClient((scheduler) => scheduler.resume());
    this.#e.pauseMode = 'none';
  }

  /** Forgets all cached prefixes; see `Scheduler.resetPrefixCache`. */
  resetPrefixCache(options: ResetOptions = {}): ResetResult {
    return this.#e.forClient((scheduler) => scheduler.resetPrefixCache(options));
  }

  /** Registers a use of a request's blocks by something else than the request; see `Scheduler.hold`. */
  hold(handle: number, kind: OutstandingKind, owner: string): boolean {
    return this.#e.forClient((scheduler) => scheduler.hold(handle, kind, owner));
  }

  /** Ends a use registered by `hold`; see `Scheduler.complete`. */
  complete(handle: number, kind: OutstandingKind, owner: string): boolean {
    return this.#e.forClient((scheduler) => scheduler.complete(handle, kind, owner));
  }

  /**
   * Ends every use of blocks by the connector, or by one child of it; see `Scheduler.fenceTransfers`. What no worker
   * was told to begin goes on: loads of a step that is kept back, stores of a request that ended since the last plan.
   */
  fenceTransfers(child?: number): number {
    return this.#e.forClient((scheduler) => scheduler.fenceTransfers(child, this.#e.workers?.begunStep));
  }

  [INSPECT](depth: number, options: object): string {
    return showFacts('Engine', depth, options, engineFacts(this.#e, this.#loop.isRunning));
  }

  get numRunning(): number {
    return this.#e.scheduler.numRunning;
  }

  get numWaiting(): number {
    return this.#e.scheduler.numWaiting;
  }

  get numUnfinished(): number {
    return this.#e.scheduler.numUnfinished;
  }

  /** Whether stepping can still change or report anything. @throws ERR_BLOCKSTEP_INVARIANT when its connector, asked, breaks it */
  hasWork(): boolean {
    return this.#e.hasWork();
  }

  /**
   * What a request waits for and since when, in words for people. Works in every state.
   * @param id its id, or its handle
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  explain(id: string | number): string {
    return explain(this.#e, id, this.#loop.isRunning || this.#e.rounds > 0);
  }

  /** Whether it is well, and if not why. Works in every state. */
  health(): EngineHealth {
    return this.#health.read();
  }

  /**
   * Also of a broken engine, unless it is the scheduler that broke.
   * @throws ERR_BLOCKSTEP_DISPOSED, ERR_BLOCKSTEP_INVARIANT
   */
  stats(): EngineStats {
    return readEngineStats(this.#e);
  }

  /** Checks every invariant of the scheduler and the native core. @throws ERR_BLOCKSTEP_INVARIANT */
  verify(): void {
    this.#e.checkUsable();
    this.#e.change((scheduler) => scheduler.verify());
  }
}

/** The frames above which the places of requests begin. */
const SUBMIT = Engine.prototype.submit;
const GENERATE = Engine.prototype.generate;
