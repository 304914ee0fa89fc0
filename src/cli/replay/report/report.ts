import { WatchedCost } from '../../../planner/model/seen-range.js';
import type { SchedulerConfig } from '../../../scheduler/options/options.js';
import type { Load } from '../run/backlog.js';
import type { Percentiles } from '../run/histogram.js';
import type { Replay, ReplayOptions } from '../run/replay.js';
import type { ReplaySeries } from '../run/replay-series.js';

/** The origin of the requests. */
export interface Source {
  /** The trace file; null: generated. */
  file: string | null;
  /** `mooncake`, `azure`, `burstgpt` or `generated`. */
  format: string;
  requests: number;
  /** Malformed lines that were skipped; `firstSkipped` describes the first one. */
  skippedLines: number;
  firstSkipped: string | null;
  /** Whether the workload says which prompts share content. If not, no prefix hits are possible. */
  promptContents: boolean;
  /** Requests whose output length was 0; they were replayed with 1. */
  zeroOutputs: number;
}

/**
 * The measurements of a replay, as `--json` prints them. Virtual times come from the cost model.
 */
export interface Report {
  /** The replay was interrupted; the figures cover the time until then. */
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
  load: Load;
  tokens: { prompt: number; generated: number };
  /** Per virtual second; null if no time passed. */
  throughput: { generatedTokens: number | null; finishedRequests: number | null };
  /** In tokens. A request's prompt is queried once, at its first admission. */
  prefixCache: { queries: number; hits: number; hitRate: number };
  /** The blocks of the pool that requests can use, and the largest fraction of them in use. */
  kvCache: { blocks: number; peakUsage: number };
  preemptions: number;
  evictions: number;
  anomalies: Record<string, number>;
  /** Virtual milliseconds. */
  ttftMs: Percentiles;
  tpotMs: Percentiles;
  e2eMs: Percentiles;
  steps: number;
  /** Fraction of the steps outside the profile's measurements; null without a profile. */
  extrapolated: number | null;
  /** Real microseconds of schedule() and update() together, per step. */
  schedulerStepUs: Percentiles;
  virtualSeconds: number;
  wallSeconds: number;
  /** Digest of the native state at the end, 16 hex digits. */
  digest: string;
}

/** Makes the report of a replay and of the series that observed it. `wallMs` is real time. */
export function makeReport(
  replay: Replay,
  series: ReplaySeries,
  source: Source,
  options: ReplayOptions,
  incomplete: boolean,
  wallMs: number,
): Report {
  const { measurements } = replay;
  const stats = replay.scheduler.stats();
  const { aborted, numFinished: finished, numRefused: refused } = measurements;
  const perSecond = (count: number): number | null =>
    replay.nowMs > 0 ? (1000 * count) / replay.nowMs : null;
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
    load: series.backlog.load(),
    tokens: { prompt: measurements.promptTokens, generated: measurements.generatedTokens },
    throughput: {
      generatedTokens: perSecond(measurements.generatedTokens),
      finishedRequests: perSecond(finished),
    },
    prefixCache: {
      queries: stats.prefixCacheQueries,
      hits: stats.prefixCacheHits,
      hitRate: stats.prefixCacheQueries === 0 ? 0 : stats.prefixCacheHits / stats.prefixCacheQueries,
    },
    kvCache: { blocks: options.scheduler.numBlocks - 1, peakUsage: series.peakKvUsage },
    preemptions: stats.numPreemptions,
    evictions: stats.evictions,
    anomalies: { ...stats.anomalies },
    ttftMs: measurements.ttftMs.percentiles(),
    tpotMs: measurements.tpotMs.percentiles(),
    e2eMs: measurements.e2eMs.percentiles(),
    steps: measurements.steps,
    extrapolated: options.cost instanceof WatchedCost ? options.cost.shareOutside : null,
    schedulerStepUs: measurements.stepUs.percentiles(),
    virtualSeconds: replay.nowMs / 1000,
    wallSeconds: wallMs / 1000,
    digest: replay.scheduler.digest().toString(16).padStart(16, '0'),
  };
}

/** The options that JSON can represent. */
function printableOptions({ scheduler, cost, ...rest }: ReplayOptions): Record<string, unknown> {
  const { log, hashSeed, placement, ...printable }: Omit<SchedulerConfig, 'now'> = scheduler;
  return { ...printable, hashSeed: Buffer.from(hashSeed).toString('hex'), ...rest };
}
