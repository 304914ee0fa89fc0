import { Deferred } from '../../base/deferred.js';
import { BlockstepError, describeError } from '../../base/errors.js';
import type { HealthWatch } from '../inspect/health.js';
import { abortStream, drainAborts } from '../requests/abort.js';
import { brokenBy, disposedError, type EngineState } from '../state/engine-state.js';

/** Ends an engine: at once, or after it has finished its requests. */
export class Shutdown {
  readonly #e: EngineState;
  readonly #health: HealthWatch;
  readonly #onDisposed: () => void;
  /** Latest end of the drain, in milliseconds of the engine's clock. */
  #until = Number.POSITIVE_INFINITY;
  #gone: Promise<void> | null = null;
  #ended: Deferred<void> | null = null;

  /** @param onDisposed ends the run loop and the exit watch; called once, when the engine is disposed */
  constructor(e: EngineState, health: HealthWatch, onDisposed: () => void) {
    this.#e = e;
    this.#health = health;
    this.#onDisposed = onDisposed;
  }

  /**
   * Begins the drain: the engine refuses new requests from now on, and the run loop calls `advance` after every turn. A later call can
   * shorten the drain.
   * @param drainMs milliseconds of the engine's clock
   * @returns the same promise for all calls; see `Engine.shutdown`
   */
  begin(drainMs: number): Promise<void> {
    const e = this.#e;
    if (!e.disposed) e.draining = true;
    this.#until = Math.min(this.#until, e.now() + drainMs);
    if (this.#ended === null) {
      this.#ended = new Deferred();
      if (this.#gone !== null) this.#ended.resolve(this.#gone);
    }
    return this.#ended.promise;
  }

  /**
   * Ends the engine if all work is done, the drain is over, or the engine is broken.
   * @returns milliseconds until the drain is over; Infinity without a drain
   */
  advance(): number {
    const e = this.#e;
    if (!e.draining || e.disposed) return Number.POSITIVE_INFINITY;
    const left = this.#until - e.now();
    if (left > 0 && !this.#isDrained() && e.poison === null) return left;
    try {
      for (const stream of [...e.streams]) abortStream(e, stream, undefined);
      drainAborts(e);
    } catch {
      // The engine is broken now.
    }
    try {
      this.dispose();
    } catch {
      // The promise of `begin` rejects with this error.
    }
    return Number.POSITIVE_INFINITY;
  }

  /**
   * Whether no work is left. Also true if asking for work breaks the engine, because a broken
   * engine does no more work.
   */
  #isDrained(): boolean {
    try {
      return this.#e.streams.size === 0 && this.#e.embedding === 0 && !this.#e.hasWork();
    } catch {
      return true;
    }
  }

  /**
   * Ends the engine now. Everything is freed, whatever is thrown.
   * @throws ERR_BLOCKSTEP_REENTRANT from inside the executor or a callback of the scheduler, with nothing changed
   * @throws ERR_BLOCKSTEP_INVARIANT if the end itself broke the engine, for instance because its log cannot be written
   * @throws ERR_BLOCKSTEP_EXECUTOR if the executor's `dispose` throws; the cause is its error
   */
  dispose(): void {
    const e = this.#e;
    if (e.disposed) return;
    e.checkNotBusy();
    const wasWhole = e.poison === null;
    sayFarewell(e);
    try {
      e.scheduler.dispose();
    } catch (error) {
      if (error instanceof BlockstepError && error.code === 'ERR_BLOCKSTEP_REENTRANT') throw error;
      e.breakOff(brokenBy(error));
    }
    const errors: unknown[] = wasWhole && e.poison !== null ? [e.poison] : [];
    e.disposed = true;
    this.#onDisposed();
    e.workers?.shutdown();
    e.giveUp(disposedError());
    this.#gone = this.#disposeExecutor(errors);
    this.#gone.catch(() => {});
    this.#ended?.resolve(this.#gone);
    this.#health.changed();
    if (errors.length > 0) throw errors[0];
  }

  /**
   * Disposes the executor. A synchronous error is added to `errors`; a later rejection reaches the callers that await the
   * shutdown.
   */
  #disposeExecutor(errors: unknown[]): Promise<void> {
    const { config, poison } = this.#e;
    const failure = (cause: unknown): BlockstepError =>
      new BlockstepError('ERR_BLOCKSTEP_EXECUTOR', `the executor's dispose failed: ${describeError(cause)}`, {
        cause,
      });
    try {
      const gone = Promise.resolve(config.disposeExecutor?.()).then(
        () => {},
        (error: unknown) => Promise.reject(failure(error)),
      );
      gone.catch(() => {});
      // A hung executor is not awaited.
      return poison?.code === 'ERR_BLOCKSTEP_EXECUTOR_HUNG' ? Promise.resolve() : gone;
    } catch (error) {
      errors.push(failure(error));
      return Promise.reject(failure(error));
    }
  }
}

/**
 * Notifies the connector and the workers that the engine is about to be disposed. Steps in flight
 * are abandoned. Every request ends, and the connector is notified of each end. The connector's
 * metadata for these ends reaches the workers with a last plan that has nothing to execute. After
 * an error the rest is skipped: the dispose that follows frees everything.
 *
 * While a GPU decides a plan, nobody is notified: the scheduler refuses every change then, and a
 * dispose does not wait.
 * @throws ERR_BLOCKSTEP_REENTRANT from inside a callback of the scheduler, with nothing changed
 */
function sayFarewell(e: EngineState): void {
  const { scheduler, workers } = e;
  if (scheduler.config.connector === null || e.poison !== null) return;
  try {
    scheduler.abortAll();
    for (const step of e.flight) {
      const { plan, state } = step;
      scheduler.failStep(plan);
      // The workers abandon the transfers that began with the step. With a step that was kept back
      // none has begun.
      if (state === 'kept back') workers?.skip(step.finishedHandles);
      else workers?.end(plan);
    }
    scheduler.pause('all');
    if (workers === null) return;
    const plan = e.planInPlace();
    workers.planned(plan);
    workers.begin(plan, true);
    workers.collect();
  } catch (error) {
    if (error instanceof BlockstepError && error.code === 'ERR_BLOCKSTEP_REENTRANT') throw error;
  }
}
