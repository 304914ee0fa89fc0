import { kvUsage } from '../../scheduler/inspect/scheduler-facts.js';
import type { SchedulerStats } from '../../scheduler/inspect/stats.js';
import { countStops } from '../requests/abort.js';
import type { EngineCounters } from '../state/counters.js';
import type { EngineState } from '../state/engine-state.js';
import type { StepLatency } from '../state/step-times.js';

/**
 * A snapshot of an engine as plain data. Counters count since the start; gauges show the present
 * state.
 */
export interface EngineStats extends EngineCounters {
  /**
   * The scheduler's statistics. Only `finished` differs: requests that their clients stopped count
   * as `stop` here, and as `abort` there.
   */
  readonly scheduler: SchedulerStats;
  /** Requests whose streams have not ended. */
  readonly streams: number;
  /** Streams that a reader waits for. */
  readonly readersWaiting: number;
  /** Unread tokens of streams that have not ended. */
  readonly bufferedTokens: number;
  /** Steps in flight: planned, and not answered yet. */
  readonly stepsInFlight: number;
  /** Requests that wait to be admitted for the first time; bounded by `maxQueuedRequests`. */
  readonly queuedRequests: number;
  /** Prompt tokens of the `queuedRequests`; bounded by `maxQueuedTokens`. */
  readonly queuedTokens: number;
  /** Aborts that wait to be carried out before the next step. */
  readonly abortsQueued: number;
  /** Time from a step's submission to the executor's answer, in milliseconds. */
  readonly stepLatencyMs: StepLatency;
}

/** See `Engine.stats`. @throws ERR_BLOCKSTEP_DISPOSED, ERR_BLOCKSTEP_INVARIANT if the scheduler is broken */
export function readEngineStats(e: EngineState): EngineStats {
  countStops(e);
  const scheduler = e.scheduler.stats();
  scheduler.finished.stop += e.counters.stopped;
  scheduler.finished.abort -= e.counters.stopped;
  return {
    scheduler,
    streams: e.streams.size,
    ...e.streams.totals,
    stepsInFlight: e.flight.length,
    abortsQueued: e.scheduler.aborts.size,
    queuedRequests: e.scheduler.backlog.requests,
    queuedTokens: e.scheduler.backlog.tokens,
    stepLatencyMs: e.stepTimes.read(),
    ...e.counters,
  };
}

/**
 * The state of an engine in a few figures, for `console.log`. Calls no foreign code, not even the
 * clock, so printing changes nothing.
 */
export function engineFacts(e: EngineState, runs: boolean): object {
  const { numRunning, numWaiting, numSkipped, core } = e.scheduler;
  return {
    state: e.state,
    drivenBy: runs ? 'run' : 'step',
    running: numRunning,
    waiting: numWaiting,
    skipped: numSkipped,
    unread: e.streams.totals.bufferedTokens,
    steps: e.counters.steps,
    stepsInFlight: e.flight.length,
    kvUsage: kvUsage(core),
    failure: e.poison?.message,
  };
}
