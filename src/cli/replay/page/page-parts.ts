// Common tiles, tables and facts of the pages of all replays.
import type { ChartSource } from '../../../report/charts/chart.js';
import type { Host } from '../../../report/host.js';
import { datum, decimal, figure, grouped, latencyUnit } from '../../../report/markup/figures.js';
import { type Html, type HtmlValue, html } from '../../../report/markup/html.js';
import { dataTable, factTable } from '../../../report/markup/tables.js';
import type { PlotLibrary } from '../../../report/page/library.js';
import type { Tile } from '../../../report/page/tiles.js';
import type { Report } from '../report/report.js';
import type { Percentiles } from '../run/histogram.js';

/** A tile of a latency: its median, and its 99th percentile below. */
export function latencyTile(label: string, { p50, p99, max }: Percentiles, source: ChartSource): Tile {
  if (p50 === null || p99 === null)
    return { label, value: null, unit: '', detail: 'no request came that far', source };
  const unit = latencyUnit(max);
  const text = (ms: number): string => figure(ms / unit.ms);
  return {
    label,
    value: datum(p50, text),
    unit: `${unit.name} p50`,
    detail: html`<strong>${datum(p99, text)}</strong> ${unit.name} p99`,
    source,
  };
}

/** A tile of the generated tokens per second. */
export function throughputTile(throughput: Report['throughput'], source: ChartSource): Tile {
  return {
    label: 'Throughput',
    value: throughput.generatedTokens === null ? null : datum(throughput.generatedTokens),
    unit: 'tokens/s',
    detail: html`<strong>${datum(throughput.finishedRequests)}</strong> requests/s finished`,
    source,
  };
}

/**
 * A tile of the fraction of cached prompt tokens.
 * @param cache a text instead of counts says why they are unknown
 */
export function hitsTile(cache: Report['prefixCache'] | string, source: ChartSource): Tile {
  const tile = { label: 'Prefix cache hits', unit: '%', source };
  if (typeof cache === 'string') return { ...tile, value: null, detail: cache };
  const { hitRate, hits, queries } = cache;
  return {
    ...tile,
    value: datum(hitRate, (share) => decimal(100 * share)),
    detail: `${grouped(hits)} of ${grouped(queries)} prompt tokens`,
  };
}

/** A table of percentiles, of rows of `percentileCells`. */
export function percentileTable(rows: readonly (readonly HtmlValue[])[]): Html {
  return dataTable(['', 'p50', 'p90', 'p99', 'max', 'values'], rows);
}

/** A row of percentiles, each divided by `perUnit`. */
export function percentileCells(
  name: string,
  { p50, p90, p99, max, count }: Percentiles,
  perUnit = 1,
): HtmlValue[] {
  const cells = [p50, p90, p99, max].map((value) => datum(value, (exact) => figure(exact / perUnit)));
  return [name, ...cells, datum(count)];
}

/** A row of a latency, in a suitable unit. */
export function latencyCells(name: string, percentiles: Percentiles, source: ChartSource): HtmlValue[] {
  const unit = latencyUnit(percentiles.max);
  return percentileCells(`${name}, ${unit.name} (${source})`, percentiles, unit.ms);
}

/** The machine, the versions and the date, as facts. */
export function madeBy(host: Host, date: Date, library: PlotLibrary): [string, HtmlValue][] {
  return [
    ['Machine', `${host.cpu}, ${host.cores} cores, ${host.memoryGiB} GiB, ${host.platform}`],
    [
      'Versions',
      `blockstep ${host.blockstep}, Node ${host.node}, V8 ${host.v8}, ${library.name} ${library.version}`,
    ],
    ['Date', isoDate(date)],
  ];
}

/** All options, folded. */
export function allOptions(options: Readonly<Record<string, unknown>>): Html {
  const text = (value: unknown): string =>
    typeof value === 'object' ? JSON.stringify(value) : String(value);
  const rows = Object.entries(options).map(
    ([name, value]) => [name, html`<code>${text(value)}</code>`] as const,
  );
  return html`<details><summary>All options</summary>${factTable(rows)}</details>`;
}

/** Counts, each after its name. */
export function named(counts: Readonly<Record<string, number>>): string {
  return Object.entries(counts)
    .map(([name, count]) => `${name} ${figure(count)}`)
    .join(', ');
}

/** A moment to the minute. */
export function isoDate(date: Date): string {
  return `${date.toISOString().slice(0, 16).replace('T', ' ')} UTC`;
}
