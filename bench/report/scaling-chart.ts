import type { EChartsOption, SeriesOption } from 'echarts';
import {
  baseOption,
  type Chart,
  colorOf,
  logAxisTicks,
  pointerTooltip,
  xAxis,
  yAxis,
} from '../../src/report/charts/chart.js';
import { datum, figure } from '../../src/report/markup/figures.js';
import { dataTable } from '../../src/report/markup/tables.js';
import type { Latency, Row } from '../rows/row.js';

const SOURCE = 'measured';
/** Ticks of the x axis: numbers of running requests. */
const TICKS = [1, 8, 32, 64, 128, 256, 512, 1024];
const FEW_TICKS = [1, 8, 64, 256, 1024];
/** Columns of a row of the dataset: number of requests, p1, p50, p99, and the span from p1 to p99. */
const [REQUESTS, P1, P50, P99, SPAN] = [0, 1, 2, 3, 4];

/** A chart of a decode step's time by the number of running requests. */
export function scalingChart(rows: readonly Row[]): Chart {
  const steps = rows.flatMap(({ group, name, latency }) =>
    group === 'decode' && latency && /^\d+$/.test(name) ? [{ size: Number(name), latency }] : [],
  );
  const source = steps.map(({ size, latency: { p1, p50, p99 } }) => [size, p1, p50, p99, p99 - p1]);
  const [low, high] = [
    0.7 * Math.min(...source.map((row) => row[P1])),
    1.5 * Math.max(...source.map((row) => row[P99])),
  ];
  const option: EChartsOption = {
    grid: { left: 62, right: 30, top: 40, bottom: 52 },
    dataset: { source },
    tooltip: pointerTooltip(),
    xAxis: xAxis('running requests, on a logarithmic scale', {
      type: 'log',
      min: 1,
      max: 1100,
      splitLine: { show: false },
      ...ticks(TICKS),
    }),
    yAxis: yAxis('µs, on a logarithmic scale', {
      type: 'log',
      min: low,
      max: high,
      ...logAxisTicks(low, high, 8),
    }),
    series: lines(),
  };
  return {
    id: 'scaling',
    title: 'One decode step by the number of running requests',
    unit: 'µs',
    source: SOURCE,
    wide: true,
    height: 400,
    note: 'The line is the p50, the shading reaches from p1 to p99.',
    description: `Time of a decode step in microseconds by running requests: ${steps.map(({ size, latency: { p50 } }) => `${size} requests ${figure(p50)}`).join(', ')}.`,
    drawing: {
      option: baseOption(option, {
        grid: { left: 62, right: 18, top: 40, bottom: 52 },
        xAxis: ticks(FEW_TICKS),
      }),
      tooltip: {
        heading: `{${REQUESTS}} running requests`,
        format: 'figure',
        lines: [{ label: 'p50:', color: colorOf(SOURCE), text: `{${P50}} µs (p1 {${P1}}, p99 {${P99}})` }],
      },
    },
    table: table(steps),
  };
}

function ticks(customValues: number[]): object {
  const axisLabel = { color: 'var(--muted)', fontSize: 12, hideOverlap: true, formatter: 'fn:figure' };
  return { axisTick: { customValues }, axisLabel: { ...axisLabel, customValues } };
}

function lines(): SeriesOption[] {
  const color = colorOf(SOURCE);
  const band = {
    type: 'line',
    stack: 'band',
    stackStrategy: 'all',
    symbol: 'none',
    silent: true,
    lineStyle: { width: 0 },
  } as const;
  return [
    { ...band, name: 'p1', encode: { x: REQUESTS, y: P1 } },
    { ...band, name: 'p1 to p99', encode: { x: REQUESTS, y: SPAN }, areaStyle: { color, opacity: 0.2 } },
    {
      type: 'line',
      name: 'p50',
      encode: { x: REQUESTS, y: P50 },
      symbol: 'circle',
      symbolSize: 7,
      lineStyle: { color, width: 2.2 },
      itemStyle: { color },
    },
  ];
}

function table(steps: readonly { size: number; latency: Latency }[]): NonNullable<Chart['table']> {
  return dataTable(
    ['running requests', 'p50 of a step, µs', 'p50 for each request, µs'],
    steps.map(({ size, latency: { p50 } }) => [figure(size), datum(p50), datum(p50 / size)]),
  );
}
