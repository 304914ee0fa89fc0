import type { SchedulerConfig } from '../scheduler/options.js';
import type { Percentiles } from './histogram.js';
import type { Replay, ReplayOptions } from './replay.js';

/** Where the requests came from. */
export interface Source {
  /** The trace file; null = generated. */
  file: string | null;
  /** `mooncake`, `azure`, `burstgpt` or `generated`. */
  format: string;
  requests: number;
  /** Malformed lines that were skipped, and what was wrong with the first. */
  skippedLines: number;
  firstSkipped: string | null;
  /** Requests whose output length was 0; they were replayed with 1. */
  zeroOutputs: number;
}

/** What a replay measured, as `--json` prints it. Virtual times are those of the cost model. */
export interface Report {
  /** The replay was interrupted: what follows covers the time until then. */
  incomplete: boolean;
  workload: Source;
  options: Record<string, unknown>;
  requests: {
    total: number;
    finished: number;
    aborted: number;
    refused: number;
    unfinished: number;
    byFinishReason: { stop: number; length: number; abort: number; error: number };
    refusedByCode: Record<string, number>;
    abortsTooLate: number;
  };
  tokens: { prompt: number; generated: number };
  /** In tokens. A request's prompt is queried once, at its first admission. */
  prefixCache: { queries: number; hits: number; hitRate: number };
  preemptions: number;
  evictions: number;
  anomalies: Record<string, number>;
  /** Virtual milliseconds. */
  ttftMs: Percentiles;
  tpotMs: Percentiles;
  steps: number;
  /** Real microseconds of schedule() and update() together, per step. */
  schedulerStepUs: Percentiles;
  virtualSeconds: number;
  wallSeconds: number;
  /** Digest of the native state at the end, 16 hex digits. */
  digest: string;
}

/** Sums a replay up. `wallMs` is real time. */
export function makeReport(
  replay: Replay,
  source: Source,
  options: ReplayOptions,
  incomplete: boolean,
  wallMs: number,
): Report {
  const { measurements } = replay;
  const stats = replay.scheduler.stats();
  const { aborted, numFinished: finished, numRefused: refused } = measurements;
  return {
    incomplete,
    workload: source,
    options: printableOptions(options),
    requests: {
      total: source.requests,
      finished,
      aborted,
      refused,
      unfinished: source.requests - finished - aborted - refused,
      byFinishReason: { ...measurements.finished, abort: aborted },
      refusedByCode: measurements.refused,
      abortsTooLate: measurements.abortsTooLate,
    },
    tokens: { prompt: measurements.promptTokens, generated: measurements.generatedTokens },
    prefixCache: {
      queries: stats.prefixCacheQueries,
      hits: stats.prefixCacheHits,
      hitRate: stats.prefixCacheQueries === 0 ? 0 : stats.prefixCacheHits / stats.prefixCacheQueries,
    },
    preemptions: stats.numPreemptions,
    evictions: stats.evictions,
    anomalies: { ...stats.anomalies },
    ttftMs: measurements.ttftMs.percentiles(),
    tpotMs: measurements.tpotMs.percentiles(),
    steps: measurements.steps,
    schedulerStepUs: measurements.stepUs.percentiles(),
    virtualSeconds: replay.nowMs / 1000,
    wallSeconds: wallMs / 1000,
    digest: replay.scheduler.digest().toString(16).padStart(16, '0'),
  };
}

/** The options as JSON can carry them. */
function printableOptions({ scheduler, ...rest }: ReplayOptions): Record<string, unknown> {
  const { log, hashSeed, placement, ...printable }: Omit<SchedulerConfig, 'now'> = scheduler;
  return { ...printable, hashSeed: Buffer.from(hashSeed).toString('hex'), ...rest };
}
