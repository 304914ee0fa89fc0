import type { EChartsOption, SeriesOption } from 'echarts';
import { coarse, datum, figure, percent, type TimeUnit } from '../markup/figures.js';
import { type Html, html } from '../markup/html.js';
import { dataTable } from '../markup/tables.js';
import { baseOption, type Chart, colorOf, logTicks, SECOND_COLOR, xAxis, yAxis } from './chart.js';
import type { Timeline, Track, TrackPoints } from './timeline.js';

/** One line of a chart over time. */
export interface TimeSeries {
  name: string;
  track: Track;
  /** Whether the extremes of each bucket are shaded behind the line. */
  band: boolean;
}

/** The x axis of all charts over time of a page: from 0 to `endMs`, in one unit. */
export interface TimeAxis {
  endMs: number;
  unit: TimeUnit;
  /** The clock of the time: the cost model's, or a real clock. */
  clock: 'virtual' | 'real';
}

export interface TimeChartInput {
  id: string;
  title: string;
  source: Chart['source'];
  note: string;
  /** Unit of the values. */
  unit: string;
  format: 'figure' | 'percent';
  scale: 'linear' | 'log';
  /** Values are divided by this to be drawn in the unit. Default 1. */
  perUnit?: number;
  axis: TimeAxis;
  timeline: Timeline;
  /** One line or two lines. */
  series: readonly TimeSeries[];
  /** A marked moment, and its event. */
  mark?: { atMs: number; what: string } | null;
}

const LABEL = { color: 'var(--muted)', fontSize: 11, hideOverlap: true };
/**
 * Pixels above the drawing, for the values at the pointer's time. In narrow pages two series take
 * two lines of text.
 */
const TOP = 26;
const narrow = (lines: number): EChartsOption => ({
  xAxis: { splitNumber: 3 },
  grid: { left: 50, right: 12, top: TOP + 16 * (lines - 1), bottom: 24 },
});

/**
 * Columns of a row of the dataset: the bucket's start and end, its middle, then per series MIN to
 * ALONE.
 */
const [FROM, TO, MIDDLE, FIRST] = [0, 1, 2, 3];
const [MIN, MEAN, MAX, SPAN, ALONE] = [0, 1, 2, 3, 4];
const PER_SERIES = 5;

/** A chart over time: a line for the mean of each bucket, and its extremes shaded. */
export function timeChart(input: TimeChartInput): Chart {
  const { timeline, series, scale, format, axis, perUnit = 1, source, mark } = input;
  const points = series.map(({ track }) => scaled(timeline.points(track), perUnit));
  const column = (i: number, which: number): number => FIRST + PER_SERIES * i + which;
  const colors = [colorOf(source), SECOND_COLOR];
  const option: EChartsOption = {
    grid: { left: 58, right: 16, top: TOP, bottom: 24 },
    dataset: { source: rows(timeline, axis.unit.ms, points) },
    xAxis: xAxis('', {
      type: 'value',
      min: 0,
      max: coarse(axis.endMs / axis.unit.ms) || 1,
      splitLine: { show: false },
      axisPointer: {
        show: true,
        triggerOn: 'none',
        snap: false,
        label: { show: false },
        lineStyle: { color: 'var(--muted)', type: 'solid' },
      },
      axisLabel: { ...LABEL, formatter: `unit:${axis.unit.name}`, showMaxLabel: false },
    }),
    yAxis: yAxis(
      '',
      valueAxis(
        scale,
        format,
        points.map((track, i) => drawn(track, series[i])),
      ),
    ),
    series: series.flatMap(({ name, band }, i) =>
      lines(name, i, band, colors[i], (which) => column(i, which)),
    ),
  };
  if (mark) Object.assign((option.series as SeriesOption[])[0], { markLine: markLine(mark, axis) });
  const value = (i: number, which: number): string => `{${column(i, which)}}`;
  return {
    id: input.id,
    title: input.title,
    unit: input.unit,
    source,
    note: input.note,
    description: describe(input),
    drawing: {
      option: baseOption(option, narrow(series.length)),
      isOverTime: true,
      tooltip: {
        heading: `{${FROM}} to {${TO}} ${axis.unit.name}`,
        format,
        lines: series.map(({ name, band }, i) => ({
          label: series.length > 1 ? name : '',
          color: colors[i],
          text: `${value(i, MEAN)}${band ? ` (${value(i, MIN)} to ${value(i, MAX)})` : ''}`,
        })),
      },
    },
    table: table(input),
  };
}

function scaled(points: TrackPoints, perUnit: number): TrackPoints {
  const scale = (column: (number | null)[]) =>
    column.map((value) => (value === null ? null : value / perUnit));
  return { min: scale(points.min), mean: scale(points.mean), max: scale(points.max) };
}

function lines(
  name: string,
  i: number,
  band: boolean,
  color: string,
  column: (which: number) => number,
): SeriesOption[] {
  const common = { type: 'line', symbol: 'none', silent: true, z: 3 + i } as const;
  const mean: SeriesOption = {
    ...common,
    name,
    encode: { x: MIDDLE, y: column(MEAN) },
    // A series without extremes has values at single moments only, so the line connects them.
    connectNulls: !band,
    lineStyle: { color, width: 1.5, type: i === 0 ? 'solid' : [6, 3] },
    itemStyle: { color },
  };
  // A mean between two gaps would be a line of no length, so it is drawn as a point.
  const alone: SeriesOption = {
    name: `${name}, alone`,
    type: 'scatter',
    silent: true,
    symbolSize: 4,
    encode: { x: MIDDLE, y: column(ALONE) },
    itemStyle: { color },
  };
  if (!band) return [mean, alone];
  // The area between the extremes: an invisible line at the smallest value, and the span stacked on
  // it.
  const stack = { ...common, stack: `band-${i}`, stackStrategy: 'all', lineStyle: { width: 0 } } as const;
  return [
    { ...stack, name: `${name}, smallest`, encode: { x: MIDDLE, y: column(MIN) } },
    {
      ...stack,
      name: `${name}, span`,
      encode: { x: MIDDLE, y: column(SPAN) },
      areaStyle: { color, opacity: 0.2 },
    },
    mean,
    alone,
  ];
}

/** A vertical line with a text on the side with more room. */
function markLine({ atMs, what }: { atMs: number; what: string }, { unit, endMs }: TimeAxis): object {
  const isLate = atMs > endMs / 2;
  const place = { align: isLate ? 'right' : 'left', offset: [isLate ? -6 : 6, 0], verticalAlign: 'top' };
  const text = { formatter: what, color: 'var(--warning)', fontSize: 11, rotate: 0 };
  return {
    symbol: 'none',
    silent: true,
    data: [{ xAxis: coarse(atMs / unit.ms) }],
    lineStyle: { color: 'var(--warning)', width: 1, type: [3, 3] },
    label: { position: 'end', distance: 0, ...place, ...text },
  };
}

function valueAxis(
  scale: 'linear' | 'log',
  format: 'figure' | 'percent',
  points: readonly TrackPoints[],
): object {
  const label = { ...LABEL, formatter: `fn:${format}` };
  const max = Math.max(...points.flatMap((track) => track.max.map((value) => value ?? 0)));
  const common = { type: 'value', min: 0, splitNumber: 3, axisLabel: label };
  // The axis ends at 100 %, unless the values are so small that they would look alike.
  if (format === 'percent') return { ...common, ...((max > 0.2 || max === 0) && { max: 1, interval: 0.5 }) };
  if (scale === 'linear') return { ...common, ...(max < 1 ? {} : { minInterval: 1 }) };
  const min = Math.min(...points.flatMap((track) => track.min.map((value) => value ?? Infinity)));
  const [low, high] = [0.8 * min, 1.25 * max];
  const customValues = logTicks(low, high, 5);
  return {
    type: 'log',
    min: low,
    max: high,
    axisLabel: { ...label, customValues },
    axisTick: { customValues },
  };
}

/** The drawn part of a track: the extremes only if there is a band. */
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
      const isAlone = (mean[i - 1] ?? null) === null && (mean[i + 1] ?? null) === null;
      row.push(...[min[i], mean[i], max[i], span, isAlone ? mean[i] : null].map(coarse));
    }
    all.push(row);
  }
  return all;
}

/** Extremes and mean of each line over the whole time, in its unit. */
function summaries({ timeline, series, perUnit = 1 }: TimeChartInput) {
  return series.map(({ name, track, band }) => {
    const found = timeline.summary(track);
    const scale = (value: number | undefined): number | null =>
      value === undefined ? null : value / perUnit;
    return { name, band, min: scale(found?.min), mean: scale(found?.mean), max: scale(found?.max) };
  });
}

/**
 * The figures as a table: for one line the figures alone, for two lines a row each with its name.
 */
function table(input: TimeChartInput): Html {
  const text = input.format === 'percent' ? percent : figure;
  const lines = summaries(input).map(({ name, min, mean, max }, i) => ({
    name: html`<span class="${i === 0 ? `line ${input.source}` : 'line second'}">${name}</span>`,
    figures: [min, mean, max].map((value) => datum(value, text)),
  }));
  const names = ['smallest', 'mean', 'largest'];
  const [{ figures }] = lines;
  if (lines.length > 1)
    return dataTable(
      ['', ...names],
      lines.map((line) => [line.name, ...line.figures]),
    );
  return html`<dl class="extremes">${names.map((name, i) => html`<div><dt>${name}</dt><dd>${figures[i]}</dd></div>`)}</dl>`;
}

function describe(input: TimeChartInput): string {
  const text = input.format === 'percent' ? percent : figure;
  const parts = summaries(input).map(({ name, min, mean, max }) =>
    min === null || mean === null || max === null
      ? `${name}: no values`
      : `${name}: from ${text(min)} to ${text(max)}, mean ${text(mean)}`,
  );
  return `${input.title}, ${input.unit}, over ${input.axis.clock} time. ${parts.join('; ')}.`;
}

const UNITS: readonly TimeUnit[] = [
  { name: 'h', ms: 3_600_000 },
  { name: 'min', ms: 60_000 },
  { name: 's', ms: 1000 },
  { name: 'ms', ms: 1 },
];

/**
 * The axis of charts that end at `endMs` by this clock, in the largest unit of which this is at
 * least 3.
 */
export function timeAxis(endMs: number, clock: TimeAxis['clock']): TimeAxis {
  return { endMs, clock, unit: UNITS.find((unit) => endMs >= 3 * unit.ms) ?? UNITS[UNITS.length - 1] };
}
