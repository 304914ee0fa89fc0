import type { Timeline, Track } from './timeline.js';

/**
 * How often something happens per second, over time. What was counted between two moments counts as spread evenly between them.
 * So the mean over any time is the count in that time divided by its length, however close the moments are.
 */
export class Rate {
  /** Events per second. */
  readonly track: Track;
  readonly #timeline: Timeline;
  /** Up to when the rate is known; `#count` is what was counted since. */
  #knownMs = 0;
  #count = 0;

  constructor(timeline: Timeline) {
    this.#timeline = timeline;
    this.track = timeline.track();
  }

  /** It happened `times` times since the last moment. */
  count(times: number): void {
    this.#count += times;
  }

  /** A moment, not before the last one. If no time has passed since, the count waits for the next moment. */
  settle(nowMs: number): void {
    const span = nowMs - this.#knownMs;
    if (span <= 0) return;
    this.#timeline.hold(this.track, this.#knownMs, nowMs, (1000 * this.#count) / span);
    this.#knownMs = nowMs;
    this.#count = 0;
  }
}
