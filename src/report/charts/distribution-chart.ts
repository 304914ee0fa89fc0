import type { EChartsOption } from 'echarts';
import { coarse, figure } from '../markup/figures.js';
import {
  AXIS_LABEL,
  baseOption,
  type Chart,
  colorOf,
  logAxisTicks,
  pointerTooltip,
  xAxis,
  yAxis,
} from './chart.js';
import type { Distribution } from './distribution.js';

export interface DistributionChartInput {
  id: string;
  title: string;
  source: Chart['source'];
  note: string;
  /**
   * Unit of the drawn values; the number of the distribution's units in it (default 1); the name of
   * the counted events ("requests").
   */
  unit: string;
  perUnit?: number;
  of: string;
  /** The text in place of the chart if there are no values. */
  empty: string;
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
/**
 * If the largest value is at most this many times the smallest, the axis is linear, which is easier
 * to read.
 */
const LINEAR_RANGE = 4;

/** A chart of a distribution: the share of values by size, with the percentiles marked. */
export function distributionChart(input: DistributionChartInput): Chart {
  const { distribution, unit, source, perUnit = 1 } = input;
  const { id, title, note } = input;
  const { edges: bounds, counts } = distribution.bars(MOST_BARS);
  const words = { id, title, unit, source, note, description: describe(input) };
  if (bounds.length === 0) return { ...words, drawing: input.empty };
  const { count, max } = input.percentiles;
  if (count === 1 && max !== null)
    return { ...words, drawing: `A single value: ${figure(max / perUnit)} ${unit}.` };
  const edges = bounds.map((edge) => edge / perUnit);
  const color = colorOf(source);
  const total = counts.reduce((a, b) => a + b, 0);
  const end = edges.length - 1;
  // Each row: from, to, share, count. A row of height 0 at each end draws the outline's left and
  // right side.
  const rows = counts.map((count, i) => [edges[i], edges[i + 1], count / total, count].map(coarse));
  rows.unshift([rows[0][0], rows[0][0], 0, 0]);
  rows.push([coarse(edges[end]), coarse(edges[end]), 0, 0]);
  const option: EChartsOption = {
    grid: { left: 58, right: 40, top: 84, bottom: 52 },
    dataset: { source: rows },
    tooltip: pointerTooltip(),
    xAxis: xAxis(isLinear(edges) ? unit : `${unit}, on a logarithmic scale`, sizeAxis(edges)),
    yAxis: yAxis(`share of ${input.of}`, {
      type: 'value',
      min: 0,
      // The name is above the labels of the percentiles.
      nameGap: 58,
      axisLabel: { color: 'var(--muted)', fontSize: 12, formatter: 'fn:percent' },
    }),
    series: {
      type: 'line',
      name: title,
      step: 'end',
      symbol: 'none',
      silent: true,
      encode: { x: 0, y: 2 },
      lineStyle: { color, width: 1.2 },
      itemStyle: { color },
      areaStyle: { color, opacity: 0.28, origin: 'start' },
      markLine: markers(input, edges),
    },
  };
  const lines = [{ label: `${input.of}:`, color, text: '{3}' }];
  const tooltip = { heading: `{0} to {1} ${unit}`, format: 'figure', lines } as const;
  const narrow = { xAxis: { axisLabel: { fontSize: 11 } } };
  return { ...words, drawing: { option: baseOption(option, narrow), tooltip } };
}

const isLinear = (edges: readonly number[]): boolean => edges[edges.length - 1] <= LINEAR_RANGE * edges[0];

function sizeAxis(edges: readonly number[]): object {
  const [min, max] = [edges[0], edges[edges.length - 1]];
  const splitLine = { show: false };
  if (isLinear(edges)) {
    return {
      type: 'value',
      min,
      max,
      splitLine,
      axisLabel: { ...AXIS_LABEL, showMinLabel: false, showMaxLabel: false },
    };
  }
  // At the very ends a label would overlap the other axis, or leave the chart.
  const ticks = logAxisTicks(min * (max / min) ** 0.06, max * (max / min) ** -0.03, 8);
  return { type: 'log', min, max, splitLine, ...ticks };
}

/** To the right of this fraction of the axis a label does not fit between its line and the edge. */
const LAST_ROOM = 0.62;

/**
 * Vertical lines that mark the percentiles. A label begins at its line, or ends at it if there is
 * no room on the right. Each label has its own height, so that no label covers the line of another.
 */
function markers(
  { percentiles, unit, perUnit = 1 }: DistributionChartInput,
  edges: readonly number[],
): object {
  const { p50, p90, p99 } = percentiles;
  const place = isLinear(edges) ? (value: number) => value : Math.log;
  const [min, max] = [edges[0], edges[edges.length - 1]].map(place);
  const marks = Object.entries({ p50, p90, p99 }).flatMap(([name, all]) => {
    if (all === null) return [];
    const value = all / perUnit;
    return [{ name, value, isLate: (place(value) - min) / (max - min) > LAST_ROOM }];
  });
  const fromTop = [
    ...marks.filter(({ isLate }) => !isLate),
    ...marks.filter(({ isLate }) => isLate).reverse(),
  ];
  const data = fromTop.map(({ name, value, isLate }, i) => {
    const position = { align: isLate ? 'right' : 'left', distance: 4 + 16 * (fromTop.length - 1 - i) };
    const text = { formatter: `${name} ${figure(value)} ${unit}`, color: 'var(--text)', fontSize: 12 };
    return { name, xAxis: coarse(value), label: { ...position, ...text } };
  });
  return {
    symbol: 'none',
    silent: true,
    data,
    lineStyle: { color: 'var(--text)', width: 1, type: [2, 3], opacity: 0.8 },
  };
}

function describe({ title, percentiles, of, unit, perUnit = 1 }: DistributionChartInput): string {
  const { count, p50, p90, p99, max } = percentiles;
  if (p50 === null || p90 === null || p99 === null || max === null) return `${title}: no values.`;
  const [a, b, c, d] = [p50, p90, p99, max].map((value) => figure(value / perUnit));
  const values = `p50 ${a}, p90 ${b}, p99 ${c}, largest ${d} ${unit}`;
  return `${title}, distribution over ${figure(count)} ${of}: ${values}.`;
}
