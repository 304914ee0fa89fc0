import { reentrant } from '../../base/foreign/callee.js';
import { BlockstepError, show } from '../../base/errors.js';

/**
 * What stands before every public call: it refuses calls after dispose, calls from inside a callback of the call that is
 * running, and, once a step broke off in the middle, every further call, since nothing may build on a state in doubt.
 *
 * A call that waits for the GPU is carried out in parts. Between them everybody else has a turn, and the state is that of a
 * half-made plan: it may be read, and nothing may be changed.
 */
export class CallGate {
  #busy = false;
  /** A call waits for the GPU, between two of its parts. */
  #suspended = false;
  #disposed = false;
  /** The error that left the state in doubt. */
  #poison: { readonly cause: unknown } | null = null;
  /** Told once, at the moment in which the state is in doubt. Must not throw. */
  onPoison: (cause: unknown) => void = () => {};

  /** Whether a call waits for the GPU. */
  get isSuspended(): boolean {
    return this.#suspended;
  }

  get isDisposed(): boolean {
    return this.#disposed;
  }

  /** Whether a call is not over: it is running, so that this one comes from inside a callback, or it waits for the GPU. */
  get isBusy(): boolean {
    return this.#busy || this.#suspended;
  }

  /** @throws ERR_BLOCKSTEP_REENTRANT, ERR_BLOCKSTEP_DECISION_PENDING, ERR_BLOCKSTEP_DISPOSED, ERR_BLOCKSTEP_INVARIANT */
  enter(): void {
    this.checkFree();
    this.#busy = true;
  }

  leave(): void {
    this.#busy = false;
  }

  /** Whether `enter` would let this call in. @throws what `enter` throws */
  checkFree(): void {
    this.checkUsable();
    this.checkNotRunning();
    this.checkNotSuspended();
  }

  /** For what a connector does, which it may do from inside a call too. @throws ERR_BLOCKSTEP_DECISION_PENDING */
  checkNotSuspended(): void {
    if (!this.#suspended) return;
    throw new BlockstepError(
      'ERR_BLOCKSTEP_DECISION_PENDING',
      'scheduleAsync() waits for the GPU: until it is over the scheduler can only be read, and requests aborted',
    );
  }

  /** @throws ERR_BLOCKSTEP_REENTRANT from inside a callback */
  checkNotRunning(): void {
    if (this.#busy) throw reentrant();
  }

  /** A part of the call that was let in is over, and the next one is not due yet. */
  suspend(): void {
    this.#busy = false;
    this.#suspended = true;
  }

  /** The next part begins. @throws ERR_BLOCKSTEP_DISPOSED, ERR_BLOCKSTEP_INVARIANT, with the call over */
  resume(): void {
    this.#suspended = false;
    this.checkUsable();
    this.#busy = true;
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
      if (this.#poison === null) {
        this.#poison = { cause: error };
        this.onPoison(error);
      }
      throw error;
    }
  }

  /**
   * Runs `act` as the last call, once. A poisoned scheduler can be disposed too.
   * @throws ERR_BLOCKSTEP_REENTRANT
   */
  dispose(act: () => void): void {
    if (this.#disposed) return;
    this.checkNotRunning();
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
    if (this.#poison === null) return;
    const { cause } = this.#poison;
    throw new BlockstepError('ERR_BLOCKSTEP_INVARIANT', `a step broke off: ${describe(cause)}`, { cause });
  }

  get isPoisoned(): boolean {
    return this.#poison !== null;
  }
}

function describe(cause: unknown): string {
  return cause instanceof Error ? `${cause.name}: ${cause.message}` : show(cause);
}
