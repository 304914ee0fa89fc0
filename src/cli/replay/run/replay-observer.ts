import type { Plan } from '../../../scheduler/plan/plan.js';

/** Observes a replay. Times are virtual milliseconds unless stated otherwise. */
export interface ReplayObserver {
  /**
   * A step was scheduled; its plan may be empty. `queuedOutside` requests have arrived and are not
   * in the scheduler yet.
   */
  planned(plan: Plan, nowMs: number, queuedOutside: number): void;
  /**
   * A step that computed something was updated and brought `tokens` tokens. The scheduler took
   * `stepUs` real microseconds for it.
   */
  updated(nowMs: number, stepUs: number, tokens: number): void;
  /** A request finished, `latencyMs` after its arrival. */
  finished(nowMs: number, latencyMs: number): void;
}
