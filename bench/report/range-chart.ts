import type { EChartsOption } from 'echarts';
import {
  baseOption,
  type Chart,
  colorOf,
  logAxisTicks,
  pointerTooltip,
  xAxis,
} from '../../src/report/charts/chart.js';
import { datum, figure } from '../../src/report/markup/figures.js';
import { dataTable } from '../../src/report/markup/tables.js';
import type { Group, Latency, Row } from '../rows/row.js';
import { GROUP_WORDS } from './groups.js';
import { rowAxis, rowLabels, rowsHeight } from './rows.js';

type TimeRow = Row & { latency: Latency };

const COLOR = colorOf('measured');

/** The times of one group, one line each: p50 as a point, from p1 to p99 as a bar, on a log axis. */
export function rangeChart(group: Group, rows: readonly Row[]): Chart {
  const own = rows.filter((row): row is TimeRow => row.group === group && row.latency !== undefined);
  const low = 0.8 * Math.min(...own.map(({ latency }) => latency.p1));
  const high = 1.25 * Math.max(...own.map(({ latency }) => latency.p99));
  const names = own.map(({ name }) => name);
  const ticks = (most: number): object => logAxisTicks(low, high, most);
  const option: EChartsOption = {
    grid: { left: 200, right: 60, top: 10, bottom: 52 },
    dataset: {
      source: own.map(({ name, latency: { p1, p50, p99, min, p90 } }) => [name, p1, p50, p99, min, p90]),
    },
    tooltip: pointerTooltip('shadow'),
    xAxis: xAxis('µs, on a logarithmic scale', { type: 'log', min: low, max: high, ...ticks(8) }),
    yAxis: rowAxis(names, 180),
    series: [
      {
        type: 'scatter',
        name: group,
        encode: { x: 2, y: 0 },
        symbolSize: 11,
        itemStyle: { color: COLOR, borderColor: 'var(--panel)', borderWidth: 1.5 },
        z: 4,
        markLine: {
          symbol: 'none',
          silent: true,
          lineStyle: { color: COLOR, width: 7, type: 'solid', opacity: 0.35, cap: 'round' },
          data: own.map(({ latency }, i) => [{ coord: [latency.p1, i] }, { coord: [latency.p99, i] }]),
        },
      },
      // The p50 in numbers, behind the bar.
      {
        type: 'scatter',
        name: 'p50',
        silent: true,
        tooltip: { show: false },
        symbolSize: 1,
        itemStyle: { color: 'transparent' },
        label: { show: true, position: 'right', distance: 10, color: 'var(--text)', fontSize: 12 },
        data: own.map(({ latency: { p50, p99 } }, i) => ({
          value: [p99, i],
          label: { formatter: figure(p50) },
        })),
      },
    ],
  };
  return {
    id: `group-${group}`,
    title: GROUP_WORDS[group].title,
    unit: 'µs',
    source: 'measured',
    wide: true,
    height: rowsHeight(names),
    note: GROUP_WORDS[group].intro,
    description: `Times of ${group} in microseconds: ${own.map(({ name, value }) => `${name} ${figure(value)}`).join(', ')}.`,
    drawing: {
      option: baseOption(option, {
        grid: { left: 138, right: 46, top: 10, bottom: 52 },
        xAxis: ticks(3),
        yAxis: rowLabels(126, 11),
      }),
      tooltip: {
        heading: '{0}',
        format: 'figure',
        lines: [{ label: 'p50:', color: COLOR, text: '{2} µs (p1 {1}, p99 {3})' }],
      },
    },
    table: dataTable(
      ['µs', 'min', 'p1', 'p50', 'p90', 'p99', 'samples'],
      own.map(({ name, latency: { min, p1, p50, p90, p99, samples } }) => [
        name,
        ...[min, p1, p50, p90, p99, samples].map((value) => datum(value)),
      ]),
    ),
  };
}
