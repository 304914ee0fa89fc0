// Charts over virtual time.
import type { Chart } from '../../../report/charts/chart.js';
import {
  type TimeAxis,
  type TimeChartInput,
  timeAxis,
  timeChart,
} from '../../../report/charts/time-chart.js';
import { grouped } from '../../../report/markup/figures.js';
import type { Report } from '../report/report.js';
import { whyNoHits } from '../report/report-words.js';
import type { ReplaySeries } from '../run/replay-series.js';
import { blankStrip, latencyStrip, type Usual, type Words, waitingStrip } from './chart-parts.js';
import type { ReplayPageInput } from './replay-page-input.js';

/** The common input of the strips of one page. */
interface Context {
  series: ReplaySeries;
  report: Report;
  axis: TimeAxis;
}

/**
 * The charts over virtual time: throughput and latency, requests and memory, preemptions and cache
 * hits, step times.
 */
export function timeStrips({ series, report }: ReplayPageInput): Chart[] {
  const context = { series, report, axis: timeAxis(series.timeline.endMs, 'virtual') };
  return [
    throughput(context),
    latency(context),
    ...requests(context),
    kvUsage(context),
    preemptions(context),
    hitRate(context),
    stepTime(context),
  ];
}

type Own = Pick<TimeChartInput, 'id' | 'title' | 'unit' | 'note' | 'series'> & Partial<TimeChartInput>;

function usual({ series, axis }: Context): Usual {
  return { source: 'virtual', format: 'figure', scale: 'linear', axis, timeline: series.timeline };
}

function strip(context: Context, own: Own): Chart {
  return timeChart({ ...usual(context), ...own });
}

function blank(words: Pick<Chart, keyof Words>, why: string): Chart {
  return blankStrip(words, 'virtual', why);
}

function throughput(context: Context): Chart {
  return strip(context, {
    id: 'throughput',
    title: 'Throughput',
    unit: 'tokens/s',
    note: 'Generated tokens a second of virtual time.',
    timeline: context.series.coarse,
    series: [{ name: 'all requests', track: context.series.throughput.track, band: false }],
  });
}

function latency(context: Context): Chart {
  const { series, report } = context;
  const words = {
    id: 'e2e-over-time',
    title: 'End-to-end latency',
    note: 'From arrival to last token, shown when a request finished.',
  };
  const { coarse: timeline, e2eMs: track } = series;
  const percentiles = report.e2eMs;
  const drawn = { timeline, track, percentiles, name: 'a request', empty: 'No request finished.' };
  return latencyStrip(usual(context), words, drawn);
}

function requests(context: Context): Chart[] {
  const { series, report } = context;
  const aborts =
    report.requests.aborted > 0 ? ' One that was given up in front of it counts until its turn.' : '';
  const waiting = {
    id: 'waiting',
    title: 'Waiting requests',
    note: `Requests that have arrived and do not run, in the scheduler’s queues and in front of it.${aborts}`,
  };
  return [
    strip(context, {
      id: 'running',
      title: 'Running requests',
      unit: 'requests',
      note: 'Requests that have been admitted and hold KV blocks.',
      series: [{ name: 'running', track: series.running, band: true }],
    }),
    strip(context, {
      id: 'batch-size',
      title: 'Batch size',
      unit: 'requests in a step',
      note: 'Requests of the step that is computed. Where nothing is drawn, nothing was computed.',
      series: [{ name: 'a step', track: series.batchSize, band: true }],
    }),
    waitingStrip(usual(context), waiting, series.waiting, report.load),
  ];
}

function kvUsage(context: Context): Chart {
  return strip(context, {
    id: 'kv-usage',
    title: 'KV cache in use',
    unit: 'of all blocks',
    format: 'percent',
    note: 'Blocks that requests hold. Those that only the prefix cache remembers are free.',
    series: [{ name: 'in use', track: context.series.kvUsage, band: true }],
  });
}

function preemptions(context: Context): Chart {
  const { series, report, axis } = context;
  const words = { id: 'preemptions', title: 'Preemptions' };
  if (report.preemptions === 0) return blank(words, 'No request was preempted.');
  const { table, ...chart } = strip(context, {
    ...words,
    unit: `requests/${axis.unit.name}`,
    perUnit: 1000 / axis.unit.ms,
    note: `${grouped(report.preemptions)} in all: requests that gave their blocks back to others, and are computed again.`,
    timeline: series.coarse,
    series: [{ name: 'preempted', track: series.preemptions.track, band: false }],
  });
  return chart;
}

function hitRate(context: Context): Chart {
  const { series, report } = context;
  const words = {
    id: 'hit-rate',
    title: 'Prefix cache hits',
    note: 'Tokens found in the cache, of those of admitted prompts.',
  };
  const none = whyNoHits(report);
  if (none !== null) return blank({ ...words, note: '' }, `Prefix cache: ${none}.`);
  if (report.prefixCache.queries === 0) return blank(words, 'No prompt was looked up.');
  return strip(context, {
    ...words,
    unit: 'of prompt tokens',
    format: 'percent',
    timeline: series.coarse,
    series: [
      { name: 'at the time', track: series.hitRate, band: false },
      { name: 'so far', track: series.totalHitRate, band: false },
    ],
  });
}

function stepTime(context: Context): Chart {
  return strip(context, {
    id: 'step-over-time',
    title: 'Scheduler step',
    unit: 'µs',
    source: 'measured',
    scale: 'log',
    note: 'Time of schedule() and update() together, by the clock. The scale is logarithmic.',
    series: [{ name: 'a step', track: context.series.stepUs, band: true }],
  });
}
