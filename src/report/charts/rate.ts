import type { Timeline, Track } from './timeline.js';

/**
 * How often something happens, over time: what was counted between two moments counts as having come evenly between them. So
 * the mean over any time is the count in it over its length, however short the moments' distance.
 */
export class Rate {
  /** A second. */
  readonly track: Track;
  readonly #timeline: Timeline;
  /** Up to when the rate is known, and what was counted since. */
  #knownMs = 0;
  #count = 0;

  constructor(timeline: Timeline) {
    this.#timeline = timeline;
    this.track = timeline.track();
  }

  /** It happened so many times since the last moment. */
  count(times: number): void {
    this.#count += times;
  }

  /** A moment, not before the last one. In no time nothing can be said: the count waits for the next moment. */
  settle(nowMs: number): void {
    const span = nowMs - this.#knownMs;
    if (span <= 0) return;
    this.#timeline.hold(this.track, this.#knownMs, nowMs, (1000 * this.#count) / span);
    this.#knownMs = nowMs;
    this.#count = 0;
  }
}
