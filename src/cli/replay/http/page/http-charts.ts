// Charts of a replay over real time, and of its latencies.
import type { Chart } from '../../../../report/charts/chart.js';
import { type TimeChartInput, timeAxis, timeChart } from '../../../../report/charts/time-chart.js';
import type { Track } from '../../../../report/charts/timeline.js';
import {
  blankStrip,
  latencyDistribution,
  latencyStrip,
  type Words,
  waitingStrip,
} from '../../page/chart-parts.js';
import type { Histogram, Percentiles } from '../../run/histogram.js';
import type { HttpPageInput } from './http-page-input.js';

const source = 'measured';

/** The charts over real time. */
export function timeStrips({ series, report }: HttpPageInput): Chart[] {
  const axis = timeAxis(series.timeline.endMs, 'real');
  const usual = { source, format: 'figure', scale: 'linear', axis, timeline: series.timeline } as const;
  const timeline = series.coarse;
  const latency = (words: Words, track: Track, percentiles: Percentiles, name: string): Chart =>
    latencyStrip(usual, words, {
      ...{ timeline, track, percentiles, name },
      empty: 'No request came that far.',
    });
  const waiting: Words = {
    id: 'waiting',
    title: 'Waiting requests',
    note: 'Requests that have arrived and have no chunk yet, those that wait for a place included.',
  };
  return [
    timeChart({
      ...usual,
      id: 'throughput',
      title: 'Throughput',
      unit: 'tokens/s',
      note: 'Generated tokens a second. A chunk counts as one token; what the server says beyond that counts when its request ends.',
      timeline: series.coarse,
      series: [{ name: 'all requests', track: series.throughput.track, band: false }],
    }),
    latency(
      { id: 'ttft-over-time', title: 'Time to first token', note: 'Shown when the first chunk came.' },
      series.ttftMs,
      report.ttftMs,
      'a request',
    ),
    latency(
      { id: 'itl-over-time', title: 'Inter-token latency', note: 'Between two chunks of a request.' },
      series.itlMs,
      report.itlMs,
      'two chunks',
    ),
    latency(
      { id: 'e2e-over-time', title: 'End-to-end latency', note: 'Shown when a request finished.' },
      series.e2eMs,
      report.e2eMs,
      'a request',
    ),
    timeChart({
      ...usual,
      id: 'open',
      title: 'Requests under way',
      unit: 'requests',
      note: 'Requests that were sent and have not ended.',
      series: [{ name: 'under way', track: series.open, band: true }],
    }),
    waitingStrip(usual, waiting, series.waiting, report.load),
    hitRate(usual, { series, report }),
    latency(
      {
        id: 'late',
        title: 'Lateness of the client',
        note: 'How long after its time a request was sent: what the server is not to be blamed for.',
      },
      series.lateMs,
      report.client.lateMs,
      'a request',
    ),
  ];
}

function hitRate(
  usual: Pick<TimeChartInput, 'axis' | 'source' | 'scale'>,
  { series, report }: Pick<HttpPageInput, 'series' | 'report'>,
): Chart {
  const words = { id: 'hit-rate', title: 'Prefix cache hits' };
  if (report.prefixCache === undefined)
    return blankStrip(
      { ...words, note: '' },
      source,
      'The server does not say how many tokens it had in a cache.',
    );
  return timeChart({
    ...usual,
    ...words,
    note: 'Tokens of prompts that the server had in a cache, by its usage, when a request finished.',
    unit: 'of prompt tokens',
    format: 'percent',
    timeline: series.coarse,
    series: [{ name: 'at the time', track: series.hitRate, band: false }],
  });
}

/** Real durations of requests, and the lateness of the client. */
export function distributions({ measurements }: HttpPageInput): Chart[] {
  const chart = (histogram: Histogram, of: string, words: Words, empty: string): Chart =>
    latencyDistribution(histogram, { source, of, ...words, empty });
  const { ttftMs, itlMs, tpotMs, e2eMs, lateMs } = measurements;
  return [
    chart(
      ttftMs,
      'requests',
      { id: 'ttft', title: 'Time to first token', note: 'From sending a request to its first chunk.' },
      'No request came to its first chunk.',
    ),
    chart(
      itlMs,
      'gaps',
      {
        id: 'itl',
        title: 'Inter-token latency',
        note: 'From one chunk of a request to the next. Most servers send a token in each.',
      },
      'No request came to its second chunk.',
    ),
    chart(
      tpotMs,
      'requests',
      {
        id: 'tpot',
        title: 'Time per output token',
        note: 'Mean time between the tokens of a request, of those that finished with two or more.',
      },
      'No request finished with two tokens or more.',
    ),
    chart(
      e2eMs,
      'requests',
      {
        id: 'e2e',
        title: 'End-to-end latency',
        note: 'From sending a request to its last chunk, of those that finished.',
      },
      'No request finished.',
    ),
    chart(
      lateMs,
      'requests',
      {
        id: 'lateness',
        title: 'Lateness of the client',
        note: 'How long after its time a request was sent.',
      },
      'No request was sent.',
    ),
  ];
}
