import type { EChartsOption, LegendComponentOption, SeriesOption } from 'echarts';
import { baseOption, type Chart, logTicks, pointerTooltip, SERIES_COLORS, xAxis, yAxis } from './chart.js';
import { coarse, datum, figure, percent } from './figures.js';
import { dataTable } from './tables.js';
import type { Timeline, Track, TrackPoints } from './timeline.js';

/** One line of a chart over time. */
export interface TimeSeries {
  name: string;
  track: Track;
  /** Whether the extremes of each bucket are shaded behind the line. */
  band: boolean;
}

export interface TimeChartInput {
  id: string;
  title: string;
  source: Chart['source'];
  note: string;
  /** Quantity and unit of the values. */
  quantity: string;
  format: 'figure' | 'percent';
  scale: 'linear' | 'log';
  timeline: Timeline;
  series: readonly TimeSeries[];
  wide?: boolean;
}

const LABEL = { color: 'var(--muted)', fontSize: 12, hideOverlap: true };

/** Columns of a row of the dataset: the bucket's start and end, its middle, then per series MIN to MAX. */
const [FROM, TO, MIDDLE, FIRST] = [0, 1, 2, 3];
const [MIN, MEAN, MAX, SPAN] = [0, 1, 2, 3];
const PER_SERIES = 4;

/** Lines over virtual time: the mean of each bucket, and its extremes shaded. */
export function timeChart(input: TimeChartInput): Chart {
  const { timeline, series, scale, format } = input;
  const time = timeUnit(timeline.endMs);
  const points = series.map(({ track }) => timeline.points(track));
  const column = (i: number, which: number): number => FIRST + PER_SERIES * i + which;
  const option: EChartsOption = {
    grid: { left: 58, right: 22, top: series.length > 1 ? 64 : 40, bottom: 52 },
    dataset: { source: rows(timeline, time.ms, points) },
    tooltip: pointerTooltip(),
    xAxis: xAxis(`virtual time, ${time.name}`, {
      type: 'value',
      min: 0,
      max: coarse(timeline.endMs / time.ms) || 1,
      splitLine: { show: false },
      axisLabel: { ...LABEL, formatter: 'fn:figure', showMaxLabel: false },
    }),
    yAxis: yAxis(
      input.quantity,
      valueAxis(
        scale,
        format,
        points.map((track, i) => drawn(track, series[i])),
      ),
    ),
    series: series.flatMap(({ name, band }, i) => lines(name, i, band, (which) => column(i, which))),
    ...(series.length > 1 && { legend: legend(series.map(({ name }) => name)) }),
  };
  return {
    id: input.id,
    title: input.title,
    source: input.source,
    note: input.note,
    ...(input.wide && { wide: true }),
    description: describe(input),
    option: baseOption(option, { xAxis: { splitNumber: 3 } }),
    tooltip: {
      heading: `{${FROM}} to {${TO}} ${time.name}`,
      format,
      lines: series.map(({ name }, i) => ({
        label: name,
        color: SERIES_COLORS[i],
        text: `{${column(i, MEAN)}} (min {${column(i, MIN)}}, max {${column(i, MAX)}})`,
      })),
    },
    table: table(input),
  };
}

function lines(name: string, i: number, band: boolean, column: (which: number) => number): SeriesOption[] {
  const color = SERIES_COLORS[i];
  const common = { type: 'line', symbol: 'none', silent: true, z: 3 + i } as const;
  const mean: SeriesOption = {
    ...common,
    name,
    encode: { x: MIDDLE, y: column(MEAN) },
    // Without extremes a value counts at single moments: in between it is not none.
    connectNulls: !band,
    lineStyle: { color, width: 1.6, type: i === 0 ? 'solid' : [6, 3] },
    itemStyle: { color },
  };
  if (!band) return [mean];
  // The area between the extremes: the smallest value, invisible, and what is between stacked on it.
  const stack = { ...common, stack: `band-${i}`, stackStrategy: 'all', lineStyle: { width: 0 } } as const;
  return [
    { ...stack, name: `${name}, smallest`, encode: { x: MIDDLE, y: column(MIN) } },
    {
      ...stack,
      name: `${name}, span`,
      encode: { x: MIDDLE, y: column(SPAN) },
      areaStyle: { color, opacity: 0.24 },
    },
    mean,
  ];
}

function legend(names: string[]): LegendComponentOption {
  return {
    data: names,
    left: 0,
    top: 0,
    itemWidth: 28,
    selectedMode: false,
    // The line alone, without the symbol that it does not have.
    itemStyle: { opacity: 0 },
    textStyle: { color: 'var(--text)', fontSize: 12 },
  };
}

function valueAxis(
  scale: 'linear' | 'log',
  format: 'figure' | 'percent',
  points: readonly TrackPoints[],
): object {
  const label = { ...LABEL, formatter: `fn:${format}` };
  const max = Math.max(...points.flatMap((track) => track.max.map((value) => value ?? 0)));
  // All of 100 %, unless nothing could be told apart then.
  if (format === 'percent') return { type: 'value', min: 0, ...(max > 0.2 && { max: 1 }), axisLabel: label };
  if (scale === 'linear') return { type: 'value', min: 0, minInterval: 1, axisLabel: label };
  const min = Math.min(...points.flatMap((track) => track.min.map((value) => value ?? Infinity)));
  const [low, high] = [0.8 * min, 1.25 * max];
  const customValues = logTicks(low, high, 8);
  return {
    type: 'log',
    min: low,
    max: high,
    axisLabel: { ...label, customValues },
    axisTick: { customValues },
  };
}

/** What is drawn of a track: the extremes only where there is a band. */
function drawn(track: TrackPoints, series: TimeSeries): TrackPoints {
  return series.band ? track : { min: track.mean, mean: track.mean, max: track.mean };
}

function rows(timeline: Timeline, unitMs: number, points: readonly TrackPoints[]): (number | null)[][] {
  const all: (number | null)[][] = [];
  for (let i = 0; i < timeline.numBuckets; i++) {
    const from = i * timeline.widthMs;
    const to = Math.min(from + timeline.widthMs, timeline.endMs);
    const row = [from, to, (from + to) / 2].map((ms) => coarse(ms / unitMs));
    for (const { min, mean, max } of points) {
      const span = min[i] === null ? null : (max[i] as number) - (min[i] as number);
      row.push(coarse(min[i]), coarse(mean[i]), coarse(max[i]), coarse(span));
    }
    all.push(row);
  }
  return all;
}

function table({ timeline, series, quantity, format }: TimeChartInput): Chart['table'] {
  const text = format === 'percent' ? percent : figure;
  const body = series.map(({ name, track }) => {
    const { min, mean, max } = timeline.summary(track) ?? { min: null, mean: null, max: null };
    return [name, ...[min, mean, max].map((value) => datum(value, text))];
  });
  return dataTable([quantity, 'smallest', 'mean', 'largest'], body);
}

function describe({ title, series, timeline, quantity, format }: TimeChartInput): string {
  const text = format === 'percent' ? percent : figure;
  const parts = series.map(({ name, track }) => {
    const summary = timeline.summary(track);
    if (summary === null) return `${name}: no values`;
    return `${name}: from ${text(summary.min)} to ${text(summary.max)}, mean ${text(summary.mean)}`;
  });
  return `${title}: ${quantity} over virtual time. ${parts.join('; ')}.`;
}

const UNITS = [
  { name: 'h', ms: 3_600_000 },
  { name: 'min', ms: 60_000 },
  { name: 's', ms: 1000 },
  { name: 'ms', ms: 1 },
];

/** The largest unit of which the time has at least three. */
function timeUnit(ms: number): { name: string; ms: number } {
  return UNITS.find((unit) => ms >= 3 * unit.ms) ?? UNITS[UNITS.length - 1];
}
