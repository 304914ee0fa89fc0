import { BlockstepError, show } from '../core/errors.js';

/**
 * What stands before every public call: it refuses calls after dispose, calls from inside a callback of the call that is
 * running, and, once a step broke off in the middle, every further call, since nothing may build on a state in doubt.
 */
export class CallGate {
  #busy = false;
  #disposed = false;
  /** The error that left the state in doubt. */
  #poison: unknown;

  /** Whether a call is running, so that this one comes from inside a callback. */
  get isBusy(): boolean {
    return this.#busy;
  }

  get isDisposed(): boolean {
    return this.#disposed;
  }

  /** @throws ERR_BLOCKSTEP_REENTRANT, ERR_BLOCKSTEP_DISPOSED, ERR_BLOCKSTEP_INVARIANT */
  enter(): void {
    this.checkUsable();
    if (this.#busy) {
      throw new BlockstepError(
        'ERR_BLOCKSTEP_REENTRANT',
        'the scheduler was called from inside one of its callbacks',
      );
    }
    this.#busy = true;
  }

  leave(): void {
    this.#busy = false;
  }

  /** Runs what changes the state: an error in it, but for an anomaly thrown in strict mode, poisons the scheduler. */
  change<T>(act: () => T): T {
    try {
      return act();
    } catch (error) {
      if (!(error instanceof BlockstepError && error.code === 'ERR_BLOCKSTEP_ANOMALY'))
        this.#poison ??= error;
      throw error;
    }
  }

  /** @returns false if it was disposed before */
  dispose(): boolean {
    if (this.#disposed) return false;
    if (this.#busy) this.enter();
    this.#disposed = true;
    return true;
  }

  /** @throws ERR_BLOCKSTEP_DISPOSED, ERR_BLOCKSTEP_INVARIANT */
  checkUsable(): void {
    if (this.#disposed) throw new BlockstepError('ERR_BLOCKSTEP_DISPOSED', 'the scheduler was disposed');
    if (this.#poison === undefined) return;
    throw new BlockstepError('ERR_BLOCKSTEP_INVARIANT', `a step broke off: ${show(String(this.#poison))}`, {
      cause: this.#poison,
    });
  }

  get isPoisoned(): boolean {
    return this.#poison !== undefined;
  }
}
