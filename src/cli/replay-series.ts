import { Timeline, type Track } from '../report/timeline.js';
import { EntryKind, type Plan } from '../scheduler/plan.js';
import type { Scheduler } from '../scheduler/scheduler.js';

/** What a replay says about itself as it goes. */
export interface ReplayObserver {
  /** A step was scheduled, be it empty; `queuedOutside` requests have arrived and are not with the scheduler yet. */
  planned(plan: Plan, nowMs: number, queuedOutside: number): void;
  /** A step that computed something was updated; the scheduler took so many real microseconds for it. */
  updated(nowMs: number, stepUs: number): void;
}

const LOOKUP_BUCKETS = 128;

/** The gauges, each with the value that it had since it was read last. */
interface Gauge {
  track: Track;
  value: number;
}

/**
 * Follows a replay over virtual time in constant memory. Gauges are read right after every `schedule()` and hold until the
 * next: their means are over time, and their extremes are those of all steps.
 */
export class ReplaySeries implements ReplayObserver {
  readonly timeline = new Timeline();
  readonly running = this.timeline.track();
  readonly waiting = this.timeline.track();
  readonly kvUsage = this.timeline.track();
  readonly stepUs = this.timeline.track();
  /** Lookups are few and differ much: over longer times their rate can be seen. */
  readonly lookups = new Timeline(LOOKUP_BUCKETS);
  /** Tokens found of those looked up, by step; the mean weighs each step with its tokens. */
  readonly hitRate = this.lookups.track();
  /** The same from the beginning to each moment. */
  readonly totalHitRate = this.lookups.track();
  readonly #scheduler: Scheduler;
  readonly #gauges: { running: Gauge; waiting: Gauge; kvUsage: Gauge };
  #readMs = 0;
  #hits = 0;
  #queries = 0;

  constructor(scheduler: Scheduler) {
    this.#scheduler = scheduler;
    const gauge = (track: Track): Gauge => ({ track, value: 0 });
    this.#gauges = {
      running: gauge(this.running),
      waiting: gauge(this.waiting),
      kvUsage: gauge(this.kvUsage),
    };
  }

  planned(plan: Plan, nowMs: number, queuedOutside: number): void {
    // Between two arrivals too: a last, empty plan carries the ids of those that finished.
    this.#read(nowMs, queuedOutside);
    // Lookups happen at admissions only, and those stand last in a plan.
    const last = plan.numRequests - 1;
    if (last >= 0 && plan.kinds[last] !== EntryKind.running) this.#lookups(nowMs);
  }

  updated(nowMs: number, stepUs: number): void {
    this.timeline.add(this.stepUs, nowMs, stepUs);
  }

  /** Lets the gauges hold until the end. */
  end(nowMs: number): void {
    this.#hold(nowMs);
  }

  #read(nowMs: number, queuedOutside: number): void {
    this.#hold(nowMs);
    const { running, waiting, kvUsage } = this.#gauges;
    const { numRunning, numWaiting, numSkipped, core } = this.#scheduler;
    running.value = numRunning;
    waiting.value = numWaiting + numSkipped + queuedOutside;
    kvUsage.value = core.usage;
    // What lasts no time is seen too.
    this.#hold(nowMs);
  }

  #hold(nowMs: number): void {
    for (const { track, value } of Object.values(this.#gauges)) {
      this.timeline.hold(track, this.#readMs, nowMs, value);
    }
    this.#readMs = nowMs;
  }

  #lookups(nowMs: number): void {
    const { prefixCacheHits, prefixCacheQueries } = this.#scheduler.stats();
    const queries = prefixCacheQueries - this.#queries;
    if (queries === 0) return;
    this.lookups.add(this.hitRate, nowMs, (prefixCacheHits - this.#hits) / queries, queries);
    this.lookups.add(this.totalHitRate, nowMs, prefixCacheHits / prefixCacheQueries);
    this.#hits = prefixCacheHits;
    this.#queries = prefixCacheQueries;
  }
}
