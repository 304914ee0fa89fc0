import { Bench } from 'tinybench';
import type { Latency } from './row.js';

/** The measured call, and the calls before and after each measured call. */
export interface Subject {
  /** The timed call. If it returns a number, that number of milliseconds counts instead of its duration. */
  run: () => number | undefined;
  /** Untimed, before and after every call. */
  before?: () => void;
  after?: () => void;
  /** Operations in one call, for operations that are too short to be timed alone. Figures are per operation. Default 1. */
  batch?: number;
}

/** How often a subject is called. */
export interface Effort {
  samples: number;
  /** Calls before the first sample, so that V8 has compiled the path and caches are warm. */
  warmup: number;
}

/** The effort of a quick run: an eighth of the samples, after the same warm-up. */
export function quickened(effort: Effort): Effort {
  return { ...effort, samples: Math.ceil(effort.samples / 8) };
}

/**
 * Calls a subject a fixed number of times, and gives the distribution of its duration less the time
 * to read the clock. The number of calls is fixed, not the time. So a subject that ages, such as a
 * decode, is measured at the same age on every machine.
 */
export function measure(subject: Subject, effort: Effort): Latency {
  const bench = new Bench({
    time: 0,
    iterations: effort.samples,
    warmupTime: 0,
    warmupIterations: effort.warmup,
    timestampProvider: 'performanceNow',
    subtractTimerOverhead: true,
    retainSamples: true,
    throws: true,
    setup: () => globalThis.gc?.(),
  });
  const { run } = subject;
  const timed = () => {
    const own = run();
    return own === undefined ? undefined : { overriddenDuration: own };
  };
  bench.add('subject', timed, {
    // Without this tinybench calls the subject once more, without the hooks, to see whether it returns a promise.
    async: false,
    ...(subject.before && { beforeEach: subject.before }),
    ...(subject.after && { afterEach: subject.after }),
  });
  const [task] = bench.runSync();
  const { result } = task;
  if (result.state !== 'completed') throw new Error(`the benchmark ended as ${result.state}`);
  return latencyOf(result.latency.samples as readonly number[], subject.batch ?? 1);
}

/** The distribution of ascending samples in milliseconds, each of `batch` operations. Percentiles by nearest rank. */
function latencyOf(samples: readonly number[], batch: number): Latency {
  const at = (percent: number): number => {
    const rank = Math.max(1, Math.ceil((percent / 100) * samples.length));
    return (samples[rank - 1] * 1000) / batch;
  };
  return { min: at(0), p1: at(1), p50: at(50), p90: at(90), p99: at(99), samples: samples.length };
}
