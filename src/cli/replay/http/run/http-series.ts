import { Rate } from '../../../../report/charts/rate.js';
import { Timeline } from '../../../../report/charts/timeline.js';
import { Backlog } from '../../run/backlog.js';
import type { EndedRequest, HttpObserver } from './http-observer.js';

/** Buckets of the coarse timeline, for quantities that differ much from one request to the next. */
const COARSE_BUCKETS = 128;

/** Records a replay over HTTP over real time, in constant memory. */
export class HttpSeries implements HttpObserver {
  readonly backlog: Backlog;
  readonly timeline = new Timeline();
  /** Requests that were sent and have not ended. */
  readonly open = this.timeline.track();
  /** Requests that have arrived and have no chunk yet. */
  readonly waiting = this.timeline.track();
  readonly coarse = new Timeline(COARSE_BUCKETS);
  /**
   * Generated tokens. A chunk counts as one. Further tokens that the server reports count when
   * their request ends.
   */
  readonly throughput = new Rate(this.coarse);
  readonly ttftMs = this.coarse.track();
  readonly itlMs = this.coarse.track();
  /** From sending to the last chunk, at the time when a request finished. */
  readonly e2eMs = this.coarse.track();
  /** How late requests were sent. */
  readonly lateMs = this.coarse.track();
  /**
   * Fraction of the prompt's tokens that the server had cached, at the time when a request
   * finished.
   */
  readonly hitRate = this.coarse.track();
  #numOpen = 0;
  #numWithoutChunk = 0;
  #queuedOutside = 0;
  #readMs = 0;
  #settleMs = 0;

  /**
   * @param lastArrivalMs when the last request arrives
   * @param requests number of requests
   */
  constructor(lastArrivalMs: number, requests: number) {
    this.backlog = new Backlog(lastArrivalMs, requests);
  }

  sent(nowMs: number, lateMs: number, queuedOutside: number): void {
    this.#hold(nowMs);
    this.#numOpen++;
    this.#numWithoutChunk++;
    this.#queuedOutside = queuedOutside;
    this.#read(nowMs);
    this.coarse.add(this.lateMs, nowMs, lateMs);
  }

  chunk(nowMs: number, gapMs: number | null, ttftMs: number | null): void {
    this.throughput.count(1);
    // A rate between two chunks would mean little, and chunks are many.
    if (nowMs - this.#settleMs >= this.coarse.widthMs) this.#settle(nowMs);
    if (gapMs !== null) this.coarse.add(this.itlMs, nowMs, gapMs);
    if (ttftMs === null) return;
    this.coarse.add(this.ttftMs, nowMs, ttftMs);
    this.#hold(nowMs);
    this.#numWithoutChunk--;
    this.#read(nowMs);
  }

  ended(nowMs: number, { hadChunk, e2eMs, unseenTokens, cache }: EndedRequest): void {
    this.#hold(nowMs);
    this.#numOpen--;
    if (!hadChunk) this.#numWithoutChunk--;
    this.#read(nowMs);
    this.throughput.count(unseenTokens);
    if (e2eMs !== null) this.coarse.add(this.e2eMs, nowMs, e2eMs);
    if (cache !== null && cache.queries > 0)
      this.coarse.add(this.hitRate, nowMs, cache.hits / cache.queries, cache.queries);
  }

  /** The replay is over. */
  end(nowMs: number): void {
    this.#hold(nowMs);
    this.#settle(nowMs);
  }

  get #numWaiting(): number {
    return this.#numWithoutChunk + this.#queuedOutside;
  }

  #settle(nowMs: number): void {
    this.throughput.settle(nowMs);
    this.#settleMs = nowMs;
  }

  #read(nowMs: number): void {
    this.backlog.read(nowMs, this.#numWaiting);
    // Values without duration still count for the extremes.
    this.#hold(nowMs);
  }

  #hold(nowMs: number): void {
    this.timeline.hold(this.open, this.#readMs, nowMs, this.#numOpen);
    this.timeline.hold(this.waiting, this.#readMs, nowMs, this.#numWaiting);
    this.backlog.hold(this.#readMs, nowMs, this.#numWaiting);
    this.#readMs = nowMs;
  }
}
