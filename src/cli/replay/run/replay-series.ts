import { Rate } from '../../../report/charts/rate.js';
import { Timeline, type Track } from '../../../report/charts/timeline.js';
import { EntryKind, type Plan } from '../../../scheduler/plan/plan.js';
import type { Scheduler } from '../../../scheduler/scheduler.js';
import { Backlog } from './backlog.js';
import type { ReplayObserver } from './replay-observer.js';

/**
 * Buckets of the coarse timeline, for quantities that are rare or differ much from step to step.
 */
const COARSE_BUCKETS = 128;

/** A quantity, and its last value. */
interface Gauge {
  track: Track;
  value: number;
}

/**
 * Records a replay over virtual time in constant memory. Gauges are read right after every
 * `schedule()` and keep their value until the next one. Their means are therefore over time, and
 * their extremes are the extremes of all steps.
 */
export class ReplaySeries implements ReplayObserver {
  readonly backlog: Backlog;
  readonly timeline = new Timeline();
  readonly running = this.timeline.track();
  readonly waiting = this.timeline.track();
  readonly kvUsage = this.timeline.track();
  /** Requests of the running step. Between steps there is no value. */
  readonly batchSize = this.timeline.track();
  readonly stepUs = this.timeline.track();
  readonly coarse = new Timeline(COARSE_BUCKETS);
  /** Generated tokens. The tokens of a step count as spread evenly over its duration. */
  readonly throughput = new Rate(this.coarse);
  /** From arrival to the last token, at the time when a request finished. */
  readonly e2eMs = this.coarse.track();
  /**
   * Fraction of the looked-up prompt tokens that were found in the prefix cache, per step; the mean
   * weighs a step by its tokens.
   */
  readonly hitRate = this.coarse.track();
  /** The same fraction from the start of the replay to each moment. */
  readonly totalHitRate = this.coarse.track();
  /** Preempted requests. */
  readonly preemptions = new Rate(this.coarse);
  readonly #scheduler: Scheduler;
  readonly #gauges: { running: Gauge; waiting: Gauge; kvUsage: Gauge };
  #readMs = 0;
  #hits = 0;
  #queries = 0;
  /** Steps that wait for their update, the oldest first. */
  readonly #inFlight: { plannedMs: number; numRequests: number }[] = [];
  #updatedMs = 0;

  /**
   * @param lastArrivalMs when the last request arrives, in virtual time
   * @param requests number of requests
   */
  constructor(scheduler: Scheduler, lastArrivalMs: number, requests: number) {
    this.#scheduler = scheduler;
    this.backlog = new Backlog(lastArrivalMs, requests);
    const gauge = (track: Track): Gauge => ({ track, value: 0 });
    this.#gauges = {
      running: gauge(this.running),
      waiting: gauge(this.waiting),
      kvUsage: gauge(this.kvUsage),
    };
  }

  planned(plan: Plan, nowMs: number, queuedOutside: number): void {
    // Empty plans count too: the last plan carries the ids of the requests that finished.
    this.#read(nowMs, queuedOutside);
    if (this.#inFlight.length === 0) this.throughput.settle(nowMs);
    const { numRequests } = plan;
    if (plan.totalTokens > 0) this.#inFlight.push({ plannedMs: nowMs, numRequests });
    this.preemptions.count(plan.preempted.length);
    this.preemptions.settle(nowMs);
    // Only admissions do lookups, and they are last in a plan.
    const last = numRequests - 1;
    if (last >= 0 && plan.kinds[last] !== EntryKind.running) this.#lookups(nowMs);
  }

  updated(nowMs: number, stepUs: number, tokens: number): void {
    const step = this.#inFlight.shift();
    // Steps run one after the other, however many are in flight.
    if (step !== undefined) {
      const beganMs = Math.max(step.plannedMs, this.#updatedMs);
      this.timeline.hold(this.batchSize, beganMs, nowMs, step.numRequests);
    }
    this.#updatedMs = nowMs;
    this.throughput.count(tokens);
    this.throughput.settle(nowMs);
    this.timeline.add(this.stepUs, nowMs, stepUs);
  }

  finished(nowMs: number, latencyMs: number): void {
    this.coarse.add(this.e2eMs, nowMs, latencyMs);
  }

  /** The replay is over: the gauges keep their values until now. */
  end(nowMs: number): void {
    this.#hold(nowMs);
    this.throughput.settle(nowMs);
    this.preemptions.settle(nowMs);
  }

  /** The largest fraction of the pool's blocks in use. */
  get peakKvUsage(): number {
    return Math.max(0, ...this.kvUsage.max);
  }

  #read(nowMs: number, queuedOutside: number): void {
    this.#hold(nowMs);
    const { running, waiting, kvUsage } = this.#gauges;
    const { numRunning, numWaiting, numSkipped, core } = this.#scheduler;
    running.value = numRunning;
    waiting.value = numWaiting + numSkipped + queuedOutside;
    kvUsage.value = core.usage;
    this.backlog.read(nowMs, waiting.value);
    // Values without duration still count for the extremes.
    this.#hold(nowMs);
  }

  #hold(nowMs: number): void {
    for (const { track, value } of Object.values(this.#gauges)) {
      this.timeline.hold(track, this.#readMs, nowMs, value);
    }
    this.backlog.hold(this.#readMs, nowMs, this.#gauges.waiting.value);
    this.#readMs = nowMs;
  }

  #lookups(nowMs: number): void {
    const { prefixCacheHits, prefixCacheQueries } = this.#scheduler.stats();
    const queries = prefixCacheQueries - this.#queries;
    if (queries === 0) return;
    this.coarse.add(this.hitRate, nowMs, (prefixCacheHits - this.#hits) / queries, queries);
    this.coarse.add(this.totalHitRate, nowMs, prefixCacheHits / prefixCacheQueries);
    this.#hits = prefixCacheHits;
    this.#queries = prefixCacheQueries;
  }
}
