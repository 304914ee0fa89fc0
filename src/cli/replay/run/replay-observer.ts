import type { Plan } from '../../../scheduler/plan/plan.js';

/** What a replay says about itself as it goes. Times are virtual unless they say otherwise. */
export interface ReplayObserver {
  /** A step was scheduled, be it empty; `queuedOutside` requests have arrived and are not with the scheduler yet. */
  planned(plan: Plan, nowMs: number, queuedOutside: number): void;
  /** A step that computed something was updated and brought so many tokens; the scheduler took `stepUs` real µs for it. */
  updated(nowMs: number, stepUs: number, tokens: number): void;
  /** A request finished, so long after its arrival. */
  finished(nowMs: number, latencyMs: number): void;
}
