import { BlockstepError, show } from '../../base/errors.js';
import { reentrant } from '../../base/foreign/callee.js';

/**
 * The gate in front of every public call. It refuses calls after `dispose`, and calls from inside a
 * callback of the running call. Once a change broke off in the middle it refuses every further
 * call, because nothing may build on an inconsistent state.
 *
 * A call that waits for the GPU runs in parts. Between two parts other code runs, and the state is
 * that of a half-made plan, which may be read but not changed.
 */
export class CallGate {
  #busy = false;
  /** Whether a call waits for the GPU, between two of its parts. */
  #suspended = false;
  #disposed = false;
  /** The error that left the state inconsistent; null = none did. */
  #poison: { readonly cause: unknown } | null = null;
  /** Called once, at the moment when the state becomes inconsistent. Must not throw. */
  onPoison: (cause: unknown) => void = () => {};

  /** Whether a call waits for the GPU. */
  get isSuspended(): boolean {
    return this.#suspended;
  }

  get isDisposed(): boolean {
    return this.#disposed;
  }

  /**
   * Whether a call is not over. Either it is running, and the caller is inside one of its
   * callbacks; or it waits for the GPU.
   */
  get isBusy(): boolean {
    return this.#busy || this.#suspended;
  }

  /**
   * Admits a call. `leave` must follow.
   * @throws ERR_BLOCKSTEP_REENTRANT, ERR_BLOCKSTEP_DECISION_PENDING, ERR_BLOCKSTEP_DISPOSED,
   * ERR_BLOCKSTEP_INVARIANT
   */
  enter(): void {
    this.checkFree();
    this.#busy = true;
  }

  /** Ends the admitted call. */
  leave(): void {
    this.#busy = false;
  }

  /**
   * Checks that `enter` would admit a call.
   * @throws the errors of `enter`
   */
  checkFree(): void {
    this.checkUsable();
    this.checkNotRunning();
    this.checkNotSuspended();
  }

  /**
   * Checks that no call waits for the GPU. Meant for actions of a connector, which may also come
   * from inside a call.
   * @throws ERR_BLOCKSTEP_DECISION_PENDING
   */
  checkNotSuspended(): void {
    if (!this.#suspended) return;
    throw new BlockstepError(
      'ERR_BLOCKSTEP_DECISION_PENDING',
      'scheduleAsync() waits for the GPU: until it is over the scheduler can only be read, and requests aborted',
    );
  }

  /**
   * Checks that no call is running.
   * @throws ERR_BLOCKSTEP_REENTRANT from inside a callback
   */
  checkNotRunning(): void {
    if (this.#busy) throw reentrant();
  }

  /** A part of the running call has ended, and the call waits for the GPU until `resume`. */
  suspend(): void {
    this.#busy = false;
    this.#suspended = true;
  }

  /**
   * Begins the next part of the call that waits.
   * @throws ERR_BLOCKSTEP_DISPOSED, ERR_BLOCKSTEP_INVARIANT; the call is over then
   */
  resume(): void {
    this.#suspended = false;
    this.checkUsable();
    this.#busy = true;
  }

  /** Runs `act`, which calls foreign code but changes nothing. That code must not call back. */
  during<T>(act: () => T): T {
    const before = this.#busy;
    this.#busy = true;
    try {
      return act();
    } finally {
      this.#busy = before;
    }
  }

  /**
   * Runs `act`, which changes the state: an error in it poisons the scheduler.
   * @throws the error of `act`
   */
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
   * Runs `act` as the last call, once; later calls do nothing. A poisoned scheduler can be disposed
   * too.
   * @throws ERR_BLOCKSTEP_REENTRANT from inside a callback; the error of `act`
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

  /**
   * Checks that the scheduler is neither disposed nor poisoned.
   * @throws ERR_BLOCKSTEP_DISPOSED, ERR_BLOCKSTEP_INVARIANT
   */
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
