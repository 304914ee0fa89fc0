import type { EngineState } from '../state/engine-state.js';

/**
 * Whether an engine makes progress, for monitoring: `Engine.progress`. Milliseconds of the engine's
 * clock.
 */
export interface EngineProgress {
  /**
   * How long no step was answered although a request waits for one: since the last answer, since
   * the oldest such request came, or since `resume`. 0 while no request can be computed, as in an
   * engine that is idle or paused.
   */
  readonly stillMs: number;
  /** Milliseconds since the answer of a step was processed; null before the first. */
  readonly sinceStepMs: number | null;
}

/** See `Engine.progress`. */
export function readProgress(e: EngineState): EngineProgress {
  const { answeredAt, resumedAt } = e;
  const hasAnswered = answeredAt !== Number.NEGATIVE_INFINITY;
  if (e.disposed || e.poison !== null) {
    return { stillMs: 0, sinceStepMs: hasAnswered ? e.now() - answeredAt : null };
  }
  const now = e.now();
  const sinceStepMs = hasAnswered ? now - answeredAt : null;
  if (e.flight.length === 0 && !e.scheduler.hasRunnable) return { stillMs: 0, sinceStepMs };
  let oldest = now;
  for (const { request } of e.streams) oldest = Math.min(oldest, request.addedAt);
  return { stillMs: Math.max(0, now - Math.max(answeredAt, resumedAt, oldest)), sinceStepMs };
}
