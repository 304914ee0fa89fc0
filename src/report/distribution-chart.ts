import type { EChartsOption } from 'echarts';
import { baseOption, type Chart, logTicks, pointerTooltip, SERIES_COLORS, xAxis, yAxis } from './chart.js';
import type { Distribution } from './distribution.js';
import { coarse, datum, figure } from './figures.js';
import { dataTable } from './tables.js';

export interface DistributionChartInput {
  id: string;
  title: string;
  source: Chart['source'];
  note: string;
  /** Quantity and unit of the values, and of what there is one value each. */
  quantity: string;
  unit: string;
  of: string;
  distribution: Distribution;
  percentiles: {
    count: number;
    p50: number | null;
    p90: number | null;
    p99: number | null;
    max: number | null;
  };
}

const MOST_BARS = 72;
/** Up to this factor between the ends a linear axis is easier to read than a logarithmic one. */
const LINEAR_RANGE = 4;
const COLOR = SERIES_COLORS[0];

/** The shares of values by their size, with the percentiles marked. */
export function distributionChart(input: DistributionChartInput): Chart {
  const { distribution, percentiles, quantity, unit } = input;
  const { edges, counts } = distribution.bars(MOST_BARS);
  const total = counts.reduce((a, b) => a + b, 0);
  const end = edges.length - 1;
  // Each row: from, to, share, count. A first one without height draws the left side, the last one the right.
  const rows = counts.map((count, i) => [edges[i], edges[i + 1], count / total, count].map(coarse));
  if (end > 0) {
    rows.unshift([rows[0][0], rows[0][0], 0, 0]);
    rows.push([coarse(edges[end]), coarse(edges[end]), 0, 0]);
  }
  const option: EChartsOption = {
    grid: { left: 58, right: 40, top: 84, bottom: 52 },
    dataset: { source: rows },
    tooltip: pointerTooltip(),
    xAxis: xAxis(`${quantity}, ${unit}`, sizeAxis(edges)),
    yAxis: yAxis(`share of ${input.of}`, {
      type: 'value',
      min: 0,
      // Above the labels of the percentiles.
      nameGap: 58,
      axisLabel: { color: 'var(--muted)', fontSize: 12, formatter: 'fn:percent' },
    }),
    series: {
      type: 'line',
      name: input.title,
      step: 'end',
      symbol: 'none',
      silent: true,
      encode: { x: 0, y: 2 },
      lineStyle: { color: COLOR, width: 1.2 },
      itemStyle: { color: COLOR },
      areaStyle: { color: COLOR, opacity: 0.35, origin: 'start' },
      markLine: markers(percentiles, edges),
    },
  };
  return {
    id: input.id,
    title: input.title,
    source: input.source,
    note: input.note,
    description: describe(input),
    option: baseOption(option, { xAxis: { axisLabel: { fontSize: 11 } } }),
    tooltip: {
      heading: `{0} to {1} ${unit}`,
      format: 'figure',
      lines: [{ label: input.of, color: COLOR, text: '{3}' }],
    },
    table: percentileTable([{ name: `${quantity}, ${unit}`, percentiles }]),
  };
}

/** Percentiles in rows. */
export function percentileTable(
  lines: readonly { name: string; percentiles: DistributionChartInput['percentiles'] }[],
): Chart['table'] {
  const body = lines.map(({ name, percentiles: { count, p50, p90, p99, max } }) => [
    name,
    ...[p50, p90, p99, max].map((value) => datum(value)),
    datum(count),
  ]);
  return dataTable(['', 'p50', 'p90', 'p99', 'max', 'count'], body);
}

function sizeAxis(edges: readonly number[]): object {
  if (edges.length === 0) return { type: 'value', min: 0, max: 1 };
  const [min, max] = [edges[0], edges[edges.length - 1]];
  const splitLine = { show: false };
  if (max <= LINEAR_RANGE * min) {
    return {
      type: 'value',
      min,
      max,
      splitLine,
      axisLabel: { ...LABEL, showMinLabel: false, showMaxLabel: false },
    };
  }
  // At the very ends a label would run into the other axis, or out of the chart.
  const customValues = logTicks(min * (max / min) ** 0.06, max * (max / min) ** -0.03, 8);
  const axisLabel = { ...LABEL, customValues };
  return { type: 'log', min, max, splitLine, axisTick: { customValues }, axisLabel };
}

const LABEL = { color: 'var(--muted)', fontSize: 12, hideOverlap: true, formatter: 'fn:figure' };

/**
 * Upright lines, their labels on lines of their own so that close percentiles do not cover each other, and to that side
 * where there is more room.
 */
function markers({ p50, p90, p99 }: DistributionChartInput['percentiles'], edges: readonly number[]): object {
  const marks = { p50, p90, p99 };
  const [min, max] = [edges[0], edges[edges.length - 1]];
  const middle = max <= LINEAR_RANGE * min ? (min + max) / 2 : Math.sqrt(min * max);
  const data = Object.entries(marks).flatMap(([name, value], i) => {
    if (value === null) return [];
    const label = { formatter: `${name} ${figure(value)}`, distance: 4 + 16 * (2 - i), color: 'var(--text)' };
    const align = value > middle ? 'right' : 'left';
    return [{ name, xAxis: coarse(value), label: { ...label, fontSize: 12, align } }];
  });
  return {
    symbol: 'none',
    silent: true,
    data,
    lineStyle: { color: 'var(--text)', width: 1, type: [2, 3], opacity: 0.8 },
  };
}

function describe({ title, percentiles, of, unit }: DistributionChartInput): string {
  const { count, p50, p90, p99, max } = percentiles;
  if (p50 === null || p90 === null || p99 === null || max === null) return `${title}: no values.`;
  const values = `p50 ${figure(p50)}, p90 ${figure(p90)}, p99 ${figure(p99)}, largest ${figure(max)} ${unit}`;
  return `${title}, distribution over ${figure(count)} ${of}: ${values}.`;
}
