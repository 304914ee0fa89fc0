import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks';

/** Interval of the measurement, in milliseconds. */
const RESOLUTION_MS = 10;
const NS_PER_MS = 1e6;

/** Lateness of the event loop of this process, in milliseconds; null if it was not measured. */
export interface EventLoopDelays {
  p50: number | null;
  p99: number | null;
  max: number | null;
}

/** Measures the lateness of the event loop of this process, from `start` to `stop`. */
export class EventLoopDelay {
  readonly #histogram: IntervalHistogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });

  start(): void {
    this.#histogram.enable();
  }

  stop(): void {
    this.#histogram.disable();
  }

  /** The lateness since `start`. */
  read(): EventLoopDelays {
    if (this.#histogram.count === 0) return { p50: null, p99: null, max: null };
    // Node's histogram contains the time between two measurements. For a loop without delay this is
    // the interval.
    const late = (ns: number): number => Math.max(0, ns / NS_PER_MS - RESOLUTION_MS);
    const { max } = this.#histogram;
    return {
      p50: late(this.#histogram.percentile(50)),
      p99: late(this.#histogram.percentile(99)),
      max: late(max),
    };
  }
}
