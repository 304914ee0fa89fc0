import type { Timeline, Track } from './timeline.js';

/**
 * The number of events per second, over time. Events between two settled moments count as spread
 * evenly between them. So the mean over any time is the count in that time divided by its length,
 * however close the moments are.
 */
export class Rate {
  /** Events per second. */
  readonly track: Track;
  readonly #timeline: Timeline;
  /** The last settled moment, in milliseconds; `#count` holds the events since then. */
  #knownMs = 0;
  #count = 0;

  constructor(timeline: Timeline) {
    this.#timeline = timeline;
    this.track = timeline.track();
  }

  /** Counts `times` more events since the last settled moment. */
  count(times: number): void {
    this.#count += times;
  }

  /**
   * Settles a moment, not before the last one: the events since then are spread over the time since
   * then. If no time has passed, they wait.
   */
  settle(nowMs: number): void {
    const span = nowMs - this.#knownMs;
    if (span <= 0) return;
    this.#timeline.hold(this.track, this.#knownMs, nowMs, (1000 * this.#count) / span);
    this.#knownMs = nowMs;
    this.#count = 0;
  }
}
