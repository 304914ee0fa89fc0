import type { EventLoopDelays } from '../../../../base/event-loop-delay.js';
import type { Source } from '../../report/report.js';
import type { Load } from '../../run/backlog.js';
import type { Percentiles } from '../../run/histogram.js';
import type { ServerGrowth } from '../client/server-counts.js';
import type { HttpReplay, HttpReplayOptions } from '../run/http-replay.js';
import type { HttpSeries } from '../run/http-series.js';

/**
 * What a replay over HTTP measured, as `--json` prints it. All times are real, by the client's clock. Fields have the names of the
 * replay in virtual time (`Report`) where they mean the same. What a client cannot know is absent.
 */
export interface HttpReport {
  /** The replay ended before all requests had; the figures cover the time until then. */
  incomplete: boolean;
  /** Why, where the server was the reason. */
  failure?: string;
  workload: Source;
  /** The server: its address without credentials, the model that was asked for. */
  server: {
    url: string;
    model: string;
    /** What the server counted meanwhile (`/metrics`), other clients' requests included; absent if it does not say. */
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
    /** By what happened: `status 500`, `broken off`, `timed out` and others. */
    failedByKind: Record<string, number>;
    /** What was said of the first that failed. */
    firstFailure?: string;
    abortsTooLate: number;
  };
  /** Waiting are requests that have arrived and have no chunk yet. */
  load: Load;
  tokens: {
    prompt: number;
    generated: number;
    /** Of the generated ones, those that are chunks, counted: the server did not say how many tokens they were. */
    generatedAsChunks: number;
  };
  /** Per second; null if no time passed. */
  throughput: { generatedTokens: number | null; finishedRequests: number | null };
  /** In tokens of prompts, by the usage that the server tells; absent if it never told of cached tokens. */
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
    /** How long requests waited for one of the places that `--concurrency` gives; absent without it. */
    heldMs?: Percentiles;
    /** How late its event loop was. */
    eventLoopDelayMs: EventLoopDelays;
  };
  wallSeconds: number;
}

/** What a report is made of beside the replay itself. */
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
