import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks';

/** How often the event loop is looked at, in milliseconds. */
const RESOLUTION_MS = 10;
const NS_PER_MS = 1e6;

/** How late the event loop of this process was, in milliseconds; null where it was not looked at. */
export interface EventLoopDelays {
  p50: number | null;
  p99: number | null;
  max: number | null;
}

/** Measures how late the event loop of this process is, from `start` to `stop`. */
export class EventLoopDelay {
  readonly #histogram: IntervalHistogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });

  start(): void {
    this.#histogram.enable();
  }

  stop(): void {
    this.#histogram.disable();
  }

  /** How late it was since `start`. */
  read(): EventLoopDelays {
    if (this.#histogram.count === 0) return { p50: null, p99: null, max: null };
    // Node's histogram has the time between two looks: that of a loop that is never late is the resolution.
    const late = (ns: number): number => Math.max(0, ns / NS_PER_MS - RESOLUTION_MS);
    const { max } = this.#histogram;
    return {
      p50: late(this.#histogram.percentile(50)),
      p99: late(this.#histogram.percentile(99)),
      max: late(max),
    };
  }
}
