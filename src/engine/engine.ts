import { parseAbortKeys } from '../scheduler/calls/validate.js';
import type { ResetOptions, ResetResult } from '../scheduler/options/reset.js';
import type { OutstandingKind } from '../scheduler/request/outstanding.js';
import { partsOf } from './authority/decided-engine.js';
import { EngineReader } from './engine-reader.js';
import { generate } from './generate.js';
import type {
  GenerateOptions,
  GenerateResult,
  GenerateSource,
  ThrowingGenerateOptions,
} from './generate-options.js';
import { ExitWatch } from './inspect/exit-watch.js';
import { HealthWatch } from './inspect/health.js';
import type { RunLoop } from './loop/run-loop.js';
import { Shutdown } from './loop/shutdown.js';
import type { StepLoop, StepReport } from './loop/step-loop.js';
import type { RequestResult } from './outputs/outputs.js';
import { type OutputsOptions, OutputsReader, parseOutputsOptions } from './outputs/outputs-reader.js';
import { abortByKeys, abortStream } from './requests/abort.js';
import { Embeddings, type EmbedOptions } from './requests/embed.js';
import { Submitter } from './requests/submit.js';
import type { EngineState } from './state/engine-state.js';
import {
  type EngineOptions,
  parseEngineOptions,
  parseShutdownOptions,
  type ShutdownOptions,
} from './state/options.js';
import { openScheduler } from './state/scheduler-options.js';
import type { RequestStream } from './streams/request-stream.js';
import type { SubmitInput, SubmitOptions } from './streams/submission.js';
import { PlaceNotes } from './streams/submit-place.js';

/**
 * An inference engine around an executor: accepts requests, schedules and executes steps, streams
 * tokens.
 *
 * Either the caller drives the engine by `step()` (`stepAsync()` where the GPU decides), or the
 * engine drives itself after `run()`. An error of an executor or a client fails only the request or
 * the step concerned. Only an executor that never answers and a broken invariant break the engine.
 * Then every stream fails with a code, every call throws that code, and `health()` gives the
 * reason.
 *
 * `executor.execute` may submit and abort requests, and read everything. `step` and `dispose` are
 * refused there (ERR_BLOCKSTEP_REENTRANT), and inside every other callback of a step. The message
 * names the callback.
 */
export class Engine extends EngineReader implements Disposable, AsyncDisposable {
  readonly #e: EngineState;
  readonly #submitter: Submitter;
  readonly #embeddings: Embeddings;
  readonly #places: PlaceNotes;
  readonly #steps: StepLoop;
  readonly #loop: RunLoop;
  readonly #shutdown: Shutdown;

  /** @throws ERR_BLOCKSTEP_BAD_ARG for a bad option, ERR_BLOCKSTEP_NO_NATIVE, ERR_BLOCKSTEP_NO_MEMORY */
  constructor(options: EngineOptions) {
    const config = parseEngineOptions(options);
    const scheduler = openScheduler(options, config);
    const { State, Steps, Loop } = partsOf(scheduler.decided !== null);
    const e = new State(scheduler, config, {
      poke: () => loop.poke(),
      broke: () => {
        health.changed();
        loop.poke();
      },
    });
    const health = new HealthWatch(e);
    const submitter = new Submitter(e);
    const steps = new Steps(e, health);
    const loop = new Loop(e, steps, health, () => shutdown.advance());
    const exitWatch = new ExitWatch(e, loop);
    const shutdown = new Shutdown(e, health, () => {
      exitWatch.end();
      loop.stop(e.poison ?? undefined);
    });
    super(e, health, loop);
    this.#e = e;
    this.#submitter = submitter;
    this.#embeddings = new Embeddings(e, submitter);
    this.#places = new PlaceNotes(config.submitPlaces, () => e.now());
    this.#steps = steps;
    this.#loop = loop;
    this.#shutdown = shutdown;
  }

  /**
   * Submits a request, also while others run. Never waits. The prompt, any array-like of token ids,
   * is copied.
   * @returns the request's stream, to be iterated or awaited. If the signal is already aborted, the
   * stream has ended
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_DUPLICATE_ID, ERR_BLOCKSTEP_UNFIT,
   * ERR_BLOCKSTEP_LIMIT; nothing was changed
   * @throws ERR_BLOCKSTEP_OVERLOADED, with `retryAfterMs`, when the queue is full
   * (`maxQueuedRequests`, `maxQueuedTokens`)
   * @throws ERR_BLOCKSTEP_SHUTDOWN once a shutdown has begun, also when it is over;
   * ERR_BLOCKSTEP_DISPOSED after `dispose()`
   */
  submit(request: SubmitInput, options: SubmitOptions = {}): RequestStream {
    return this.#submitter.submit(request, options, this.#places.one(SUBMIT));
  }

  /**
   * Generates for many prompts; the results come in the order of the prompts. At most
   * `2 * maxNumSeqs` requests of a batch are in the engine at a time, and the engine drives itself.
   * A failed request does not affect the others; see `GenerateResult`.
   * @param prompts each prompt as token ids, or as a request with its own fields; in an array, or
   * in any iterable of `for await`
   * @throws by rejection, with all requests of the batch aborted. The errors are
   * ERR_BLOCKSTEP_BAD_ARG, the signal's reason, and an error of `prompts` or `onProgress`. With
   * `onError: 'throw'`, also the error of the first failed request. If the engine is closed at the
   * start, the error of `submit`
   */
  generate(prompts: GenerateSource, options: ThrowingGenerateOptions): Promise<RequestResult[]>;
  generate(prompts: GenerateSource, options?: GenerateOptions): Promise<GenerateResult[]>;
  generate(prompts: GenerateSource, options: GenerateOptions = {}): Promise<GenerateResult[]> {
    const place = this.#places.each(GENERATE);
    return generate(this.#e, this.#loop, this.#submitter, { prompts, options, place });
  }

  /**
   * Makes embedding vectors or scores of texts, if the executor supports it (`Executor.embed`), as
   * `LlamaEmbedder` of `blockstep/llama-cpp` does. Texts of all calls are batched, independently of
   * the steps.
   * @param texts each as token ids
   * @returns a promise of a vector for each text. It is rejected with ERR_BLOCKSTEP_BAD_ARG,
   * ERR_BLOCKSTEP_UNFIT, ERR_BLOCKSTEP_OVERLOADED, ERR_BLOCKSTEP_EXECUTOR, the errors of `submit`
   * when closed, and the signal's reason
   */
  embed(texts: readonly ArrayLike<number>[], options: EmbedOptions = {}): Promise<readonly Float32Array[]> {
    return this.#embeddings.embed(texts, options);
  }

  /**
   * The outputs of all requests together, from now on: one item for a step, without an object per
   * request or token. Meant for servers, which read many requests at once. The requests may also
   * have their own readers.
   * @returns a reader for one `for await`. Close a reader that is no longer read, by leaving its
   * loop or by `return()`
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_DISPOSED, or the code that the engine broke with
   */
  outputs(options: OutputsOptions = {}): OutputsReader {
    this.#e.checkUsable();
    return new OutputsReader(this.#e.streams.totals.open(parseOutputsOptions(options)));
  }

  /**
   * Aborts requests by id or handle. Readers are notified at once; the blocks return to the pool
   * before the next step. Ids and handles of unknown or finished requests are skipped and counted.
   * In strict mode the call then throws for a handle that was never given out, and the engine
   * continues: see `Scheduler.abort`.
   * @param reason the readers are rejected with it; without a reason their streams end with
   * `finishReason: 'abort'`
   * @throws ERR_BLOCKSTEP_BAD_ARG for a value that is neither an id nor a handle, and nothing was
   * changed; ERR_BLOCKSTEP_ANOMALY
   */
  abort(ids: string | number | Iterable<string | number>, reason?: unknown): void {
    this.#e.checkUsable();
    abortByKeys(this.#e, parseAbortKeys(ids), reason);
  }

  /** Aborts every unfinished request. @param reason as for `abort` */
  abortAll(reason?: unknown): void {
    this.#e.checkUsable();
    for (const stream of [...this.#e.streams]) abortStream(this.#e, stream, reason);
  }

  /**
   * Runs one round: aborts, schedule, execute. If the oldest step was answered, then also: aborts,
   * update, publish. Never waits, and submits at most one step.
   * @throws the error of the clock, with nothing changed
   * @throws ERR_BLOCKSTEP_REENTRANT, ERR_BLOCKSTEP_DISPOSED
   * @throws ERR_BLOCKSTEP_EXECUTOR_HUNG, ERR_BLOCKSTEP_INVARIANT when the engine is broken
   * @throws ERR_BLOCKSTEP_AUTHORITY where the GPU decides: `stepAsync` waits for it
   */
  step(): StepReport {
    return this.#steps.step();
  }

  /**
   * `step()` for both authorities. With `authority: 'device'` it waits until the GPU has decided. A
   * call that changes something meanwhile first waits for the GPU itself, synchronously, and
   * completes the round.
   * @throws by rejection what `step` throws; ERR_BLOCKSTEP_DISPOSED if the engine was disposed
   * meanwhile
   */
  stepAsync(): Promise<StepReport> {
    return this.#steps.stepAsync();
  }

  /**
   * Makes steps until `stop` or the end of the engine, and yields to the event loop after each
   * answer. Keeps the process alive while a request can progress, or has a deadline. Idle sessions
   * or a pause alone do not. A process that is about to end with unfinished requests gets one
   * warning per engine (`BlockstepWarning`, code `BLOCKSTEP_UNFINISHED`).
   * @returns a promise that resolves when the engine is stopped, and rejects when the engine
   * breaks. A caller may ignore it
   * @throws ERR_BLOCKSTEP_DISPOSED, or the code that the engine broke with
   */
  run(): Promise<void> {
    this.#e.checkUsable();
    return this.#loop.start();
  }

  /**
   * Ends `run`, and suspends batches until `run` or `generate` is called. The answers of steps in
   * flight are still processed. No effect during a shutdown.
   */
  stop(): void {
    if (!this.#e.draining) this.#loop.stop();
  }

  /** Whether the engine drives itself, because of `run`, `generate` or `shutdown`. */
  get isRunning(): boolean {
    return this.#loop.isRunning;
  }

  /**
   * Drains and ends the engine, which drives itself meanwhile. New requests are refused. Present
   * requests continue until they are done and held blocks are freed, for at most `drainMs`
   * milliseconds of the engine's clock (default 30,000). Then the rest is aborted without a reason,
   * and everything is disposed: `submit` throws ERR_BLOCKSTEP_SHUTDOWN, other calls
   * ERR_BLOCKSTEP_DISPOSED.
   * @returns one promise for all calls. It resolves when the engine and its executor are disposed,
   * and rejects only if the executor's `dispose` failed. A later call can shorten the drain.
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  shutdown(options: ShutdownOptions = {}): Promise<void> {
    const { disposed } = this.#e;
    const ended = this.#shutdown.begin(parseShutdownOptions(options));
    if (!disposed) this.#loop.start();
    return ended;
  }

  /**
   * Ends the engine now: every stream delivers its tokens and then fails with
   * ERR_BLOCKSTEP_DISPOSED, steps in flight are abandoned, all memory is freed. Idempotent, also
   * for a broken engine. A `shutdown()` afterwards waits for the executor's `dispose`.
   * @throws ERR_BLOCKSTEP_REENTRANT from inside a callback of a step, with nothing changed
   * @throws ERR_BLOCKSTEP_EXECUTOR, with everything freed, if the executor's `dispose` throws
   * @throws ERR_BLOCKSTEP_INVARIANT, with everything freed, if the end broke the engine
   */
  dispose(): void {
    this.#shutdown.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** `shutdown()` with the default drain. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.shutdown();
  }

  /** Stops admission (`new`), or all scheduling (`all`), until `resume`. */
  pause(mode: 'new' | 'all'): void {
    this.#e.pause(mode);
  }

  /** Ends a `pause`. */
  resume(): void {
    this.#e.resume();
  }

  /** Forgets all cached prefixes; see `Scheduler.resetPrefixCache`. */
  resetPrefixCache(options: ResetOptions = {}): ResetResult {
    return this.#e.forClient((scheduler) => scheduler.resetPrefixCache(options));
  }

  /**
   * Returns transfer params that will not be submitted to the connector, as `submit` does when it
   * refuses a request; see `Scheduler.giveBack`. @throws ERR_BLOCKSTEP_BAD_ARG
   */
  giveBack(transferParams: Readonly<Record<string, unknown>>): void {
    this.#e.forClient((scheduler) => scheduler.giveBack(transferParams));
  }

  /** Registers a use of a request's blocks besides the request's own; see `Scheduler.hold`. */
  hold(handle: number, kind: OutstandingKind, owner: string): boolean {
    return this.#e.forClient((scheduler) => scheduler.hold(handle, kind, owner));
  }

  /** Ends a use registered by `hold`; see `Scheduler.complete`. */
  complete(handle: number, kind: OutstandingKind, owner: string): boolean {
    return this.#e.forClient((scheduler) => scheduler.complete(handle, kind, owner));
  }

  /**
   * Ends all uses of blocks that workers have begun for the connector, or for one child of it; see
   * `Scheduler.fenceTransfers`.
   */
  fenceTransfers(child?: number): number {
    return this.#e.forClient((scheduler) => scheduler.fenceTransfers(child, this.#e.workers?.begunStep));
  }

  /** Checks every invariant of the scheduler and the native core. @throws ERR_BLOCKSTEP_INVARIANT */
  verify(): void {
    this.#e.checkUsable();
    this.#e.change((scheduler) => scheduler.verify());
  }
}

/** The stack of a request's error begins at the caller of one of these functions. */
const SUBMIT = Engine.prototype.submit;
const GENERATE = Engine.prototype.generate;
