// Figures follow from the times of chunks; warnings about a late client; the list of unknown
// figures.
import { describe, expect, it } from 'vitest';
import type { HttpReport } from '../../../src/cli/replay/http/report/http-report.js';
import {
  metricsInWords,
  unknownInWords,
  warningsInWords,
} from '../../../src/cli/replay/http/report/http-words.js';
import { HttpMeasurements, type Seen } from '../../../src/cli/replay/http/run/http-measurements.js';
import { HttpSeries } from '../../../src/cli/replay/http/run/http-series.js';

const times = (ms: number) => ({ count: 9, p50: ms, p90: ms, p99: ms, max: ms });

/** A report of a replay in which all went well. */
function report(own: Partial<HttpReport>): HttpReport {
  return {
    incomplete: false,
    workload: {
      file: null,
      format: 'generated',
      requests: 9,
      skippedLines: 0,
      firstSkipped: null,
      promptContents: true,
      zeroOutputs: 0,
    },
    server: { url: 'http://a', model: 'm' },
    options: {},
    requests: {
      total: 9,
      finished: 9,
      aborted: 0,
      refused: 0,
      failed: 0,
      unfinished: 0,
      byFinishReason: {},
      failedByKind: {},
      abortsTooLate: 0,
    },
    load: {
      arrivalSeconds: 1,
      waitingAtLastArrival: 0,
      waitingByQuarter: [0, 0, 0, 0],
      exceedsCapacity: false,
    },
    tokens: { prompt: 9, generated: 9, generatedAsChunks: 0 },
    throughput: { generatedTokens: 9, finishedRequests: 9 },
    ttftMs: times(500),
    itlMs: times(10),
    tpotMs: times(10),
    e2eMs: times(900),
    client: { lateMs: times(2), eventLoopDelayMs: { p50: 0, p99: 3, max: 40 } },
    wallSeconds: 1,
    ...own,
  };
}

describe('the report of a replay over HTTP', () => {
  it('warns of a client that is late, so that the server is not blamed', () => {
    const warned = (own: Partial<HttpReport>): string[] => warningsInWords(report(own)).map(([name]) => name);
    const eventLoopDelayMs = { p50: 0, p99: 3, max: 40 };
    expect(warned({})).toEqual([]);
    expect(warned({ client: { lateMs: times(49), eventLoopDelayMs } })).toEqual([]);
    expect(warned({ client: { lateMs: times(51), eventLoopDelayMs } })).toEqual(['Late']);
    expect(warned({ client: { lateMs: times(2), eventLoopDelayMs: { p50: 0, p99: 60, max: 80 } } })).toEqual([
      'Late',
    ]);
    // Of a server that is very fast a lateness of the system's timers is no fault.
    expect(warned({ ttftMs: times(3), client: { lateMs: times(4), eventLoopDelayMs } })).toEqual([]);
  });

  it('says what a client cannot know, and what the server says of it', () => {
    expect(unknownInWords(report({}))).toBe(
      'steps, batch sizes, evictions, preemptions, KV cache use, prefix cache hits',
    );
    const metrics = { preemptions: 2, kvCacheUsage: { before: 0, after: 0.5 }, generatedTokens: 14 };
    const told = report({ server: { url: 'http://a', model: 'm', metrics } });
    expect(unknownInWords(told)).toBe('steps, batch sizes, evictions, prefix cache hits');
    expect(metricsInWords(told)).toEqual([
      ['preemptions', '2'],
      ['KV cache in use', '0.00 % before, 50.00 % after'],
      ['tokens', '14 generated, 5 of them for others'],
    ]);
  });
});

describe('what is measured of a request', () => {
  it('follows from the times of its chunks, and from the tokens that the server counts', () => {
    const measured = new HttpMeasurements();
    const seen: Seen = { promptTokens: 7, sentMs: 100, chunks: 0, firstChunkMs: 0, lastChunkMs: 0 };
    expect([150, 170, 250].map((atMs) => measured.chunk(seen, atMs))).toEqual([null, 20, 80]);
    const usage = { promptTokens: 8, generatedTokens: 6, cachedTokens: 4 };
    expect(measured.ended(seen, { finishReason: 'stop', usage, failure: null })).toBe(6);
    expect(measured.ttftMs.percentiles().max).toBe(50);
    expect(measured.itlMs.percentiles()).toMatchObject({ count: 2, max: 80 });
    expect(measured.itlMs.percentiles().p50).toBeCloseTo(20, 1);
    // 100 ms between the first chunk and the last one, for five tokens behind the first.
    expect(measured.tpotMs.percentiles()).toMatchObject({ count: 1, max: 20 });
    expect(measured.e2eMs.percentiles().max).toBe(150);
    expect(measured).toMatchObject({ promptTokens: 8, generatedTokens: 6, generatedAsChunks: 0 });
    expect(measured.cache).toEqual({ queries: 8, hits: 4 });
  });

  it('is in the series at its time', () => {
    const series = new HttpSeries(1000, 3);
    series.sent(0, 2, 0);
    series.chunk(100, null, 100);
    series.sent(500, 4, 1);
    series.chunk(600, 500, null);
    series.ended(600, { hadChunk: true, e2eMs: 600, unseenTokens: 3, cache: { queries: 10, hits: 5 } });
    series.sent(1000, 0, 0);
    series.ended(1100, { hadChunk: false, e2eMs: null, unseenTokens: 0, cache: null });
    series.end(2000);
    // Under way: 1 up to 500, 2 up to 600, 1 up to 1,000, 2 up to 1,100, then 1.
    expect(series.timeline.summary(series.open)).toEqual({ min: 0, mean: 1.1, max: 2 });
    expect(series.timeline.summary(series.waiting)?.max).toBe(2);
    expect(series.backlog.load()).toMatchObject({ waitingAtLastArrival: 2 });
    expect(series.coarse.summary(series.throughput.track)?.mean).toBeCloseTo(5 / 2);
    expect(series.coarse.summary(series.hitRate)?.mean).toBe(0.5);
    expect(series.coarse.summary(series.lateMs)).toMatchObject({ mean: 2, max: 4 });
  });
});
