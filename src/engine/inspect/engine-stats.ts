import { kvUsage } from '../../scheduler/inspect/scheduler-facts.js';
import type { SchedulerStats } from '../../scheduler/inspect/stats.js';
import { countStops } from '../requests/abort.js';
import type { EngineCounters } from '../state/counters.js';
import type { EngineState } from '../state/engine-state.js';
import type { StepLatency } from '../state/step-times.js';

/** A snapshot as plain data. Counts of events are since the start; gauges are derived from the state at this moment. */
export interface EngineStats extends EngineCounters {
  /** The scheduler's statistics, but for `finished`: requests that their clients stopped count as `stop` here, as `abort` there. */
  readonly scheduler: SchedulerStats;
  /** Requests whose streams have not ended. */
  readonly streams: number;
  /** Streams that a reader waits for. */
  readonly readersWaiting: number;
  /** Tokens of streams that have not ended, not read yet. */
  readonly bufferedTokens: number;
  /** Steps submitted to the executor and not taken. */
  readonly stepsInFlight: number;
  /** Requests that wait to be admitted for the first time, and their prompt tokens: what `maxQueuedRequests` and `maxQueuedTokens` bound. */
  readonly queuedRequests: number;
  readonly queuedTokens: number;
  /** Aborts to be carried out before the next step. */
  readonly abortsQueued: number;
  /** How long the executor takes for a step, in milliseconds. */
  readonly stepLatencyMs: StepLatency;
}

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

/** The state of an engine in a few figures, for `console.log`. Calls nobody, not even the clock: to look changes nothing. */
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
