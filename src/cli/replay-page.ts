import { basename } from 'node:path';
import type { Chart } from '../report/chart.js';
import {
  type DistributionChartInput,
  distributionChart,
  percentileTable,
} from '../report/distribution-chart.js';
import { datum, figure, grouped, percent } from '../report/figures.js';
import type { Host } from '../report/host.js';
import { type Html, type HtmlValue, html } from '../report/html.js';
import type { PlotLibrary } from '../report/library.js';
import { renderPage, type Section } from '../report/page.js';
import { factTable } from '../report/tables.js';
import { type TimeChartInput, timeChart } from '../report/time-chart.js';
import type { Measurements } from './measurements.js';
import type { ReplaySeries } from './replay-series.js';
import type { Report } from './report.js';
import { commandLine } from './shell.js';

export interface ReplayPageInput {
  report: Report;
  measurements: Measurements;
  series: ReplaySeries;
  /** Whether the scheduler wrote a log meanwhile. */
  recorded: boolean;
  /** The arguments of the command. */
  args: readonly string[];
  host: Host;
  date: Date;
}

const SAMPLED =
  'Read after every schedule() and held until the next; the band spans the smallest and largest.';

/** The page of one replay. */
export function replayPage(input: ReplayPageInput, library: PlotLibrary): string {
  const { report, host, date } = input;
  const name = report.workload.file === null ? 'a generated workload' : basename(report.workload.file);
  const { total, finished, aborted, refused } = report.requests;
  return renderPage(
    {
      title: html`Replay of <bdi>${name}</bdi>`,
      plainTitle: `Replay of ${name} – blockstep`,
      lead: html`Requests, queues and latencies run in <strong>virtual time</strong>: a step lasts as long as the cost model says, which is an assumption and no measurement. Only the scheduler’s own time a step is <strong>measured</strong>, on the machine named below. Each figure carries a tag that says which of the two it is.`,
      warning: report.incomplete
        ? html`Incomplete: the replay was interrupted, and all figures cover the time until then, ${grouped(finished + aborted + refused)} of ${grouped(total)} requests.`
        : null,
      sections: [
        { title: 'In numbers', content: html`${headline(report)}${latencies(report)}` },
        { title: 'Load over time', charts: loadCharts(input) },
        { title: 'Latency of requests', charts: requestCharts(input) },
        { title: 'The scheduler’s own time', charts: schedulerCharts(input) },
        { title: 'How it was made', content: provenance(input, library) },
      ] satisfies Section[],
      footer: html`<p>Made by blockstep ${host.blockstep} on ${isoDate(date)}.</p>`,
      data: { report, host, date: date.toISOString(), args: input.args },
    },
    library,
  );
}

function headline(report: Report): Html {
  const { requests, tokens, prefixCache, virtualSeconds, wallSeconds, schedulerStepUs: _, ...rest } = report;
  const throughput = virtualSeconds > 0 ? tokens.generated / virtualSeconds : null;
  const facts: [string, HtmlValue][] = [
    [
      'Requests',
      html`${datum(requests.total)}: ${datum(requests.finished)} finished, ${datum(requests.aborted)} aborted, ${datum(requests.refused)} refused, ${datum(requests.unfinished)} unfinished`,
    ],
    ['Tokens', html`${datum(tokens.prompt)} of prompts, ${datum(tokens.generated)} generated`],
    ['Generated a virtual second', html`${datum(throughput)} tokens`],
    [
      'Prefix cache',
      html`${datum(prefixCache.hitRate, percent)} hit: ${datum(prefixCache.hits)} of ${datum(prefixCache.queries)} tokens`,
    ],
    ['Preemptions', datum(rest.preemptions)],
    ['Cached blocks evicted', datum(rest.evictions)],
    ['Steps', datum(rest.steps)],
    ['Time', html`${datum(virtualSeconds)} s virtual, ${datum(wallSeconds)} s real`],
  ];
  if (Object.keys(rest.anomalies).length > 0) facts.push(['Anomalies', named(rest.anomalies)]);
  if (requests.refused > 0) facts.push(['Refused', named(requests.refusedByCode)]);
  return factTable(facts);
}

function latencies({ ttftMs, tpotMs, schedulerStepUs }: Report): Html {
  return percentileTable([
    { name: 'Time to first token, ms (virtual)', percentiles: ttftMs },
    { name: 'Time per output token, ms (virtual)', percentiles: tpotMs },
    { name: 'Scheduler, µs a step (measured)', percentiles: schedulerStepUs },
  ]);
}

function loadCharts({ series, report }: ReplayPageInput): Chart[] {
  const { timeline } = series;
  const shared = { source: 'virtual', scale: 'linear', timeline } as const;
  const gauge = (
    own: Pick<TimeChartInput, 'id' | 'title' | 'quantity' | 'note' | 'series' | 'format'> &
      Partial<TimeChartInput>,
  ): Chart => timeChart({ ...shared, ...own });
  const line = (name: string, track: TimeChartInput['series'][number]['track'], band = true) => ({
    name,
    track,
    band,
  });
  const aborts =
    report.requests.aborted > 0 ? ' A request that was given up in front of it counts until its turn.' : '';
  return [
    gauge({
      id: 'running',
      title: 'Running requests',
      quantity: 'requests',
      format: 'figure',
      note: SAMPLED,
      series: [line('running', series.running)],
    }),
    gauge({
      id: 'waiting',
      title: 'Waiting requests',
      quantity: 'requests',
      format: 'figure',
      note: `${SAMPLED} All that have arrived and are not running, in the scheduler’s queues and in front of it.${aborts}`,
      series: [line('waiting', series.waiting)],
    }),
    gauge({
      id: 'kv-usage',
      title: 'KV cache in use',
      quantity: 'share of the pool’s blocks',
      format: 'percent',
      note: `${SAMPLED} Blocks that only the prefix cache remembers are free.`,
      series: [line('in use', series.kvUsage)],
    }),
    gauge({
      id: 'hit-rate',
      title: 'Prefix cache hit rate',
      quantity: 'share of the tokens looked up',
      format: 'percent',
      timeline: series.lookups,
      note: 'Tokens found of those looked up by first admissions, over so many at the time, and over all since the beginning.',
      series: [
        line('at the time', series.hitRate, false),
        line('since the beginning', series.totalHitRate, false),
      ],
    }),
  ];
}

function requestCharts({ measurements, report }: ReplayPageInput): Chart[] {
  const shared = { source: 'virtual', unit: 'ms', of: 'requests' } as const;
  const chart = (own: Omit<DistributionChartInput, keyof typeof shared>): Chart =>
    distributionChart({ ...shared, ...own });
  return [
    chart({
      id: 'ttft',
      title: 'Time to first token',
      quantity: 'time to first token',
      note: 'From the arrival of a request to its first token, waiting included.',
      distribution: measurements.ttftMs.distribution,
      percentiles: report.ttftMs,
    }),
    chart({
      id: 'tpot',
      title: 'Time per output token',
      quantity: 'time per output token',
      note: 'Mean time between the tokens of a request, of those that finished with two or more.',
      distribution: measurements.tpotMs.distribution,
      percentiles: report.tpotMs,
    }),
  ];
}

function schedulerCharts({ measurements, report, series, recorded }: ReplayPageInput): Chart[] {
  const recording = recorded ? ' Recording the log is part of it.' : '';
  const source = 'measured';
  return [
    distributionChart({
      id: 'step',
      title: 'Scheduler time a step',
      source,
      quantity: 'time of a step',
      unit: 'µs',
      of: 'steps',
      note: `schedule() and update() together, in real time; the model’s time is not in it.${recording} The tail is garbage collection and whatever else the machine did.`,
      distribution: measurements.stepUs.distribution,
      percentiles: report.schedulerStepUs,
    }),
    timeChart({
      id: 'step-over-time',
      title: 'Scheduler time a step over virtual time',
      source,
      quantity: 'time of a step, µs',
      format: 'figure',
      scale: 'log',
      note: 'The same steps where they happened in virtual time: mean, and from the fastest to the slowest.',
      timeline: series.timeline,
      series: [{ name: 'step', track: series.stepUs, band: true }],
    }),
  ];
}

function provenance({ report, args, host, date }: ReplayPageInput, library: PlotLibrary): Html {
  const { workload, options } = report;
  const file =
    workload.file === null
      ? 'generated'
      : html`<code><bdi>${workload.file}</bdi></code> (${workload.format})`;
  const notes = [
    workload.skippedLines > 0 && ` ${grouped(workload.skippedLines)} malformed lines were skipped.`,
    workload.zeroOutputs > 0 &&
      ` ${grouped(workload.zeroOutputs)} requests of output length 0 were replayed with 1.`,
  ];
  const text = (value: unknown): string =>
    typeof value === 'object' ? JSON.stringify(value) : String(value);
  const rows = Object.entries(options).map(
    ([name, value]) => [name, html`<code>${text(value)}</code>`] as const,
  );
  return html`${factTable([
    ['Command', html`<code>${commandLine(['blockstep', ...args])}</code>`],
    ['Workload', html`${file}, ${datum(workload.requests)} requests.${notes}`],
    ['Machine', `${host.cpu}, ${host.cores} cores, ${host.memoryGiB} GiB, ${host.platform}`],
    [
      'Versions',
      `blockstep ${host.blockstep}, Node ${host.node}, V8 ${host.v8}, ${library.name} ${library.version}`,
    ],
    ['Date', isoDate(date)],
    ['Digest of the final state', html`<code>${report.digest}</code>`],
  ])}
<details><summary>All options</summary>${factTable(rows)}</details>`;
}

function named(counts: Record<string, number>): string {
  return Object.entries(counts)
    .map(([name, count]) => `${name} ${figure(count)}`)
    .join(', ');
}

function isoDate(date: Date): string {
  return `${date.toISOString().slice(0, 16).replace('T', ' ')} UTC`;
}
