import { reentrant } from '../../base/foreign/callee.js';
import type { Plan } from '../plan/plan.js';
import type { Deciding } from './gpu-question.js';

/**
 * The pause between two polls of a slow decision, in milliseconds: the thread that makes it may
 * need this core.
 */
const PAUSE_MS = 0.02;
const NEVER_WOKEN = new Int32Array(new SharedArrayBuffer(4));

type Outcome = { plan: Plan } | { error: unknown };

/**
 * A `schedule()` that waits for decisions of the GPU. `settle` or `finish` continues it. Both
 * return its one outcome.
 */
export class PendingSchedule {
  readonly #parts: Deciding<Plan>;
  #outcome: Outcome | null = null;
  #isAdvancing = false;

  constructor(parts: Deciding<Plan>) {
    this.#parts = parts;
  }

  /**
   * Waits for the plan, polling once in every turn of the event loop.
   * @throws by rejection what the schedule throws
   */
  async settle(): Promise<Plan> {
    while (!this.#advance()) await new Promise<void>((turn) => setImmediate(turn));
    return this.#result();
  }

  /**
   * Waits for the plan synchronously; the thread is blocked meanwhile.
   * @throws the errors of the schedule; ERR_BLOCKSTEP_REENTRANT from inside a callback of this
   * schedule
   */
  finish(): Plan {
    while (!this.#advance()) Atomics.wait(NEVER_WOKEN, 0, 0, PAUSE_MS);
    return this.#result();
  }

  /**
   * Continues as far as the GPU has decided.
   * @returns whether the schedule is over
   */
  #advance(): boolean {
    if (this.#outcome !== null) return true;
    if (this.#isAdvancing) throw reentrant();
    this.#isAdvancing = true;
    try {
      const { done, value } = this.#parts.next();
      if (done === true) this.#outcome = { plan: value };
    } catch (error) {
      this.#outcome = { error };
    } finally {
      this.#isAdvancing = false;
    }
    return this.#outcome !== null;
  }

  #result(): Plan {
    const outcome = this.#outcome as Outcome;
    if ('error' in outcome) throw outcome.error;
    return outcome.plan;
  }
}
