import { Deferred } from '../../base/deferred.js';
import { BlockstepError, describeError } from '../../base/errors.js';
import type { HealthWatch } from '../inspect/health.js';
import { abortStream, drainAborts } from '../requests/abort.js';
import { brokenBy, disposedError, type EngineState } from '../state/engine-state.js';
import { sayFarewell } from './farewell.js';

/** Ends an engine: at once, or after it has finished its requests. */
export class Shutdown {
  readonly #e: EngineState;
  readonly #health: HealthWatch;
  readonly #onDisposed: () => void;
  /** When the drain ends at the latest, by the engine's clock. */
  #until = Number.POSITIVE_INFINITY;
  #gone: Promise<void> | null = null;
  #ended: Deferred<void> | null = null;

  /** @param onDisposed ends what drives and watches the engine; called once, when nothing can be done with it any more */
  constructor(e: EngineState, health: HealthWatch, onDisposed: () => void) {
    this.#e = e;
    this.#health = health;
    this.#onDisposed = onDisposed;
  }

  /**
   * Begins the drain: the engine takes no new requests from now on, and the run loop calls `advance`. A later call can shorten
   * the drain.
   * @returns the one promise of the engine's end
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
   * Ends the engine if everything is done, the time of the drain is up, or the engine is broken.
   * @returns milliseconds until the time is up; Infinity without a drain
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
      // The promise of the end rejects with it.
    }
    return Number.POSITIVE_INFINITY;
  }

  /** Whether nothing is left to be done. True too if asking breaks the engine: then nothing can be done any more. */
  #isDrained(): boolean {
    try {
      return this.#e.streams.size === 0 && !this.#e.hasWork();
    } catch {
      return true;
    }
  }

  /**
   * Ends the engine now. Everything is freed, whatever is thrown.
   * @throws ERR_BLOCKSTEP_REENTRANT from inside the executor or a callback of the scheduler, with nothing changed
   * @throws ERR_BLOCKSTEP_INVARIANT if the end itself broke the engine, for instance since its log cannot be written;
   * ERR_BLOCKSTEP_EXECUTOR for what the executor's dispose throws
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

  /** Disposes the executor. What it throws at once is noted in `errors`; what it rejects with later reaches whoever awaits the shutdown. */
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
      // An executor that hangs is not waited for.
      return poison?.code === 'ERR_BLOCKSTEP_EXECUTOR_HUNG' ? Promise.resolve() : gone;
    } catch (error) {
      errors.push(failure(error));
      return Promise.reject(failure(error));
    }
  }
}
