import type { EventLoopDelays } from '../../../../base/event-loop-delay.js';
import type { Source } from '../../report/report.js';
import type { Load } from '../../run/backlog.js';
import type { Percentiles } from '../../run/histogram.js';
import type { ServerGrowth } from '../client/server-counts.js';
import type { HttpReplay, HttpReplayOptions } from '../run/http-replay.js';
import type { HttpSeries } from '../run/http-series.js';

/**
 * The measurements of a replay over HTTP, as `--json` prints them. All times are real, by the
 * client's clock. Fields of the same meaning have the names of the replay in virtual time
 * (`Report`). Values that a client cannot know are absent.
 */
export interface HttpReport {
  /** The replay ended before all requests had ended. The figures cover the time until then. */
  incomplete: boolean;
  /** The reason, if the server caused it. */
  failure?: string;
  workload: Source;
  /** The server: its address without credentials, and the requested model. */
  server: {
    url: string;
    model: string;
    /**
     * The growth of the server's counts (`/metrics`), including other clients' requests; absent if
     * the server has no such metrics.
     */
    metrics?: ServerGrowth;
  };
  options: Record<string, unknown>;
  requests: {
    total: number;
    finished: number;
    aborted: number;
    /** Status 429. */
    refused: number;
    failed: number;
    unfinished: number;
    byFinishReason: Record<string, number>;
    /** By the kind of failure: `status 500`, `broken off`, `timed out` and others. */
    failedByKind: Record<string, number>;
    /** The message of the first failed request. */
    firstFailure?: string;
    abortsTooLate: number;
  };
  /** Requests count as waiting from their arrival to their first chunk. */
  load: Load;
  tokens: {
    prompt: number;
    generated: number;
    /**
     * The part of the generated tokens that was counted as chunks, because the server did not
     * report a number of tokens.
     */
    generatedAsChunks: number;
  };
  /** Per second; null if no time passed. */
  throughput: { generatedTokens: number | null; finishedRequests: number | null };
  /**
   * In tokens of prompts, by the usage that the server reports; absent if it never reported cached
   * tokens.
   */
  prefixCache?: { queries: number; hits: number; hitRate: number };
  /** Milliseconds from sending to the first chunk. */
  ttftMs: Percentiles;
  /** Milliseconds from one chunk of a request to the next. */
  itlMs: Percentiles;
  tpotMs: Percentiles;
  e2eMs: Percentiles;
  /** The load generator itself, in milliseconds. */
  client: {
    /** How late requests were sent. */
    lateMs: Percentiles;
    /** How long requests waited for a place under `--concurrency`; absent without this flag. */
    heldMs?: Percentiles;
    /** Lateness of its event loop. */
    eventLoopDelayMs: EventLoopDelays;
  };
  wallSeconds: number;
}

/** The input of a report beside the replay itself. */
export interface HttpFacts {
  readonly source: Source;
  readonly url: string;
  readonly options: HttpReplayOptions;
  readonly growth: ServerGrowth | null;
  readonly delays: EventLoopDelays;
  readonly complete: boolean;
}

/** Makes the report of a replay that has ended. */
export function makeHttpReport(replay: HttpReplay, series: HttpSeries, facts: HttpFacts): HttpReport {
  const { measurements, nowMs, failure } = replay;
  const { source, url, growth, delays, complete } = facts;
  const { model, timeoutMs, concurrency, ...options } = facts.options;
  const { numFinished: finished, numFailed: failed, aborted, refused, cache } = measurements;
  const perSecond = (count: number): number | null => (nowMs > 0 ? (1000 * count) / nowMs : null);
  return {
    incomplete: !complete,
    ...(failure !== null && { failure }),
    workload: source,
    server: { url, model, ...(growth !== null && { metrics: growth }) },
    options: { ...options, concurrency, timeoutSeconds: timeoutMs / 1000 },
    requests: {
      total: source.requests,
      finished,
      aborted,
      refused,
      failed,
      unfinished: source.requests - measurements.numEnded,
      byFinishReason: measurements.finished,
      failedByKind: measurements.failed,
      ...(measurements.firstFailure !== null && { firstFailure: measurements.firstFailure }),
      abortsTooLate: measurements.abortsTooLate,
    },
    load: series.backlog.load(),
    tokens: {
      prompt: measurements.promptTokens,
      generated: measurements.generatedTokens,
      generatedAsChunks: measurements.generatedAsChunks,
    },
    throughput: {
      generatedTokens: perSecond(measurements.generatedTokens),
      finishedRequests: perSecond(finished),
    },
    ...(cache !== null && {
      prefixCache: { ...cache, hitRate: cache.queries === 0 ? 0 : cache.hits / cache.queries },
    }),
    ttftMs: measurements.ttftMs.percentiles(),
    itlMs: measurements.itlMs.percentiles(),
    tpotMs: measurements.tpotMs.percentiles(),
    e2eMs: measurements.e2eMs.percentiles(),
    client: {
      lateMs: measurements.lateMs.percentiles(),
      ...(concurrency !== null && { heldMs: measurements.heldMs.percentiles() }),
      eventLoopDelayMs: delays,
    },
    wallSeconds: nowMs / 1000,
  };
}
