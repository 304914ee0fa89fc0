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

  /** @throws ERR_BLOCKSTEP_REENTRANT, ERR_BLOCKSTEP_DISPOSED, ERR_BLOCKSTEP_INVARIANT */
  enter(): void {
    this.checkUsable();
    if (this.#busy) throw reentrant();
    this.#busy = true;
  }

  leave(): void {
    this.#busy = false;
  }

  /** Runs what asks others but changes nothing: whom it asks must not call back. */
  during<T>(act: () => T): T {
    const before = this.#busy;
    this.#busy = true;
    try {
      return act();
    } finally {
      this.#busy = before;
    }
  }

  /** Runs what changes the state: an error in it poisons the scheduler. */
  change<T>(act: () => T): T {
    try {
      return act();
    } catch (error) {
      this.#poison ??= error;
      throw error;
    }
  }

  /**
   * Runs `act` as the last call, once. A poisoned scheduler can be disposed too.
   * @throws ERR_BLOCKSTEP_REENTRANT
   */
  dispose(act: () => void): void {
    if (this.#disposed) return;
    if (this.#busy) throw reentrant();
    this.#busy = true;
    try {
      act();
    } finally {
      this.#busy = false;
      this.#disposed = true;
    }
  }

  /** @throws ERR_BLOCKSTEP_DISPOSED, ERR_BLOCKSTEP_INVARIANT */
  checkUsable(): void {
    if (this.#disposed) throw new BlockstepError('ERR_BLOCKSTEP_DISPOSED', 'the scheduler was disposed');
    if (this.#poison === undefined) return;
    const cause = this.#poison;
    throw new BlockstepError('ERR_BLOCKSTEP_INVARIANT', `a step broke off: ${describe(cause)}`, { cause });
  }

  get isPoisoned(): boolean {
    return this.#poison !== undefined;
  }
}

function reentrant(): BlockstepError {
  return new BlockstepError(
    'ERR_BLOCKSTEP_REENTRANT',
    'the scheduler was called from inside one of its callbacks',
  );
}

function describe(cause: unknown): string {
  return cause instanceof Error ? `${cause.name}: ${cause.message}` : show(cause);
}
