import { INSPECT, showFacts } from '../base/inspect.js';
import type { SchedulerReader } from '../scheduler/scheduler-reader.js';
import { type EngineStats, engineFacts, readEngineStats } from './inspect/engine-stats.js';
import { explain } from './inspect/explain.js';
import type { EngineHealth, HealthWatch } from './inspect/health.js';
import { type EngineProgress, readProgress } from './inspect/progress.js';
import type { EngineState } from './state/engine-state.js';

/** The part of an engine that only reads. */
export class EngineReader {
  readonly #e: EngineState;
  readonly #health: HealthWatch;
  readonly #driver: { readonly isRunning: boolean };

  /** @internal */
  constructor(e: EngineState, health: HealthWatch, driver: { readonly isRunning: boolean }) {
    this.#e = e;
    this.#health = health;
    this.#driver = driver;
  }

  /** The engine's scheduler, for reading only. The engine is its sole owner: a caller that changes it breaks the engine. */
  get scheduler(): SchedulerReader {
    return this.#e.scheduler;
  }

  [INSPECT](depth: number, options: object): string {
    return showFacts('Engine', depth, options, engineFacts(this.#e, this.#driver.isRunning));
  }

  /** Distinguishes the engines of a thread. */
  get number(): number {
    return this.#e.number;
  }

  /** See `EngineOptions.maxQueuedRequests`. */
  get maxQueuedRequests(): number {
    return this.#e.config.maxQueuedRequests;
  }

  /** Number of running requests. */
  get numRunning(): number {
    return this.#e.scheduler.numRunning;
  }

  /** Number of waiting requests that can be admitted as soon as they fit. */
  get numWaiting(): number {
    return this.#e.scheduler.numWaiting;
  }

  /** Number of unfinished requests that a step could advance (vLLM `get_num_unfinished_requests`); 0 while all is paused. */
  get numUnfinished(): number {
    return this.#e.scheduler.numUnfinished;
  }

  /**
   * Whether another step can change or report anything. @throws ERR_BLOCKSTEP_INVARIANT if a call
   * of the connector breaks the engine
   */
  hasWork(): boolean {
    return this.#e.hasWork();
  }

  /**
   * The reason why a request waits, and since when, as text for people, by id or handle. Works in
   * every state. @throws ERR_BLOCKSTEP_BAD_ARG
   */
  explain(id: string | number): string {
    return explain(this.#e, id, this.#driver.isRunning || this.#e.rounds > 0);
  }

  /** Whether the engine is healthy, and why not. Works in every state. */
  health(): EngineHealth {
    return this.#health.read();
  }

  /**
   * Whether the engine makes progress. `health()` does not notice an engine that nobody steps.
   * Works in every state.
   */
  progress(): EngineProgress {
    return readProgress(this.#e);
  }

  /**
   * Statistics of the engine and its scheduler. Works for a broken engine too, unless the scheduler itself is broken.
   * @throws ERR_BLOCKSTEP_DISPOSED, ERR_BLOCKSTEP_INVARIANT
   */
  stats(): EngineStats {
    return readEngineStats(this.#e);
  }
}
