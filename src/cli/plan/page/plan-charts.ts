// The charts of a plan: the best results, the load that breaks the objectives, options, engines
// over time.
import type { EChartsOption } from 'echarts';
import type { Finalist, PlannedPoint, Sensitivity } from '../../../planner/plan.js';
import type { EngineWindow } from '../../../planner/sweep/fleet-size.js';
import type { Condition } from '../../../planner/sweep/slo.js';
import {
  baseOption,
  type Chart,
  type ChartTooltip,
  colorOf,
  type Drawing,
  logAxisTicks,
  pointerTooltip,
  SECOND_COLOR,
  xAxis,
  yAxis,
} from '../../../report/charts/chart.js';
import { coarse, figure } from '../../../report/markup/figures.js';
import { pointInWords, type Told, vllmCommand } from '../report/plan-words.js';

type Series = NonNullable<EChartsOption['series']>;

const SOURCE = 'virtual';
const GRID = { left: 58, right: 24, top: 40, bottom: 52 };
const NARROW_GRID = { grid: { ...GRID, left: 46, right: 12 } };
/**
 * A strain above this value is drawn at this value, because the queue grows without bounds there.
 */
const MOST_STRAIN = 100;

/** A logarithmic axis with room around its values. */
function logAxis(values: readonly (number | null | undefined)[]): object {
  const known = values.filter((value): value is number => typeof value === 'number' && value > 0);
  if (known.length === 0) return { type: 'log' };
  const min = Math.min(...known) * 0.8;
  const max = Math.max(...known) * 1.25;
  return { type: 'log', min, max, ...logAxisTicks(min, max, 6) };
}

/** A vertical or horizontal line at a bound. */
interface Mark {
  readonly xAxis?: number;
  readonly yAxis?: number;
}

function bounds(data: readonly Mark[]): object {
  return {
    symbol: 'none',
    silent: true,
    data,
    label: { formatter: 'bound', color: 'var(--warning)', fontSize: 11, position: 'insideEndTop' },
    lineStyle: { color: 'var(--warning)', width: 1, type: [4, 3] },
  };
}

/** A drawing with its tooltip. */
function drawingOf(own: EChartsOption, heading: string, lines: ChartTooltip['lines']): Drawing {
  const option = baseOption({ grid: GRID, tooltip: pointerTooltip(), ...own }, NARROW_GRID);
  return { option, tooltip: { heading, format: 'figure', lines } };
}

/** Percent of a bound. */
function percentOf(strain: number): number | null {
  return coarse(100 * Math.min(MOST_STRAIN, strain));
}

/** TTFT against TPOT of all points, the Pareto-optimal points with their bands, and the bounds. */
export function paretoChart(told: Told): Chart {
  const { found, input } = told;
  const row = ({ point, run }: PlannedPoint): (number | string | null)[] => [
    coarse(run.latencies.ttft.p95),
    coarse(run.latencies.tpot.p95),
    Number.isFinite(run.strain) ? coarse(100 * run.strain) : null,
    pointInWords(point),
    vllmCommand(told, point),
    coarse(100 * run.extrapolated),
  ];
  // Points that a search dropped were run with fewer requests, so they cannot be compared here.
  const whole = found.points.filter(({ run }) => run.requests === input.workload.length);
  const drawn = whole.filter(
    ({ run }) => (run.latencies.ttft.p95 ?? 0) > 0 && run.latencies.tpot.p95 !== null,
  );
  const optimal = drawn.filter((each) => each.isParetoOptimal);
  const front = optimal.map(row).sort((a, b) => Number(a[0]) - Number(b[0]));
  const color = colorOf(SOURCE);
  const bandsOf = ({ band, run }: PlannedPoint): (number | null)[][] => {
    if (band === null) return [];
    const { ttft, tpot } = run.latencies;
    const [left, right] = band.ttftMs.map(coarse);
    const [low, high] = band.tpotMs.map(coarse);
    const gap = [null, null];
    return [
      [left, coarse(tpot.p95)],
      [right, coarse(tpot.p95)],
      gap,
      [coarse(ttft.p95), low],
      [coarse(ttft.p95), high],
      gap,
    ];
  };
  const boundOf = (name: Condition['latency']): number | undefined =>
    input.slo.find(({ latency, statistic }) => latency === name && statistic === 'p95')?.belowMs;
  const marks: Mark[] = [];
  const ttft = boundOf('ttft');
  const tpot = boundOf('tpot');
  if (ttft !== undefined) marks.push({ xAxis: ttft });
  if (tpot !== undefined) marks.push({ yAxis: tpot });
  const option: EChartsOption = {
    tooltip: { ...pointerTooltip(), trigger: 'item', extraCssText: 'max-width: 340px; white-space: normal;' },
    xAxis: xAxis(
      'time to first token, p95, ms',
      logAxis([...drawn.map(({ run }) => run.latencies.ttft.p95), ttft]),
    ),
    yAxis: yAxis(
      'time per output token, p95, ms',
      logAxis([...drawn.map(({ run }) => run.latencies.tpot.p95), tpot]),
    ),
    series: [
      {
        type: 'scatter',
        data: drawn.filter((each) => !each.isParetoOptimal).map(row),
        symbolSize: 7,
        itemStyle: { color: SECOND_COLOR, opacity: 0.55 },
        markLine: bounds(marks),
      },
      {
        type: 'line',
        data: optimal.flatMap(bandsOf),
        symbol: 'none',
        silent: true,
        lineStyle: { color, width: 1.2, opacity: 0.7 },
      },
      {
        type: 'line',
        data: front,
        symbol: 'circle',
        symbolSize: 9,
        lineStyle: { color, width: 1.2, type: [4, 3] },
        itemStyle: { color },
      },
    ] as Series,
  };
  const lines = [
    { label: 'TTFT p95', color, text: '{0} ms' },
    { label: 'TPOT p95', color, text: '{1} ms' },
    { label: 'of the nearest bound', color, text: '{2} %' },
    { label: 'of its steps extrapolated', color: SECOND_COLOR, text: '{5} %' },
    { label: '', color: SECOND_COLOR, text: '{4}' },
  ];
  return {
    id: 'pareto',
    title: 'What can be had',
    unit: 'ms',
    source: SOURCE,
    wide: true,
    height: 380,
    description: `Time to first token against time per output token of ${drawn.length} points; ${optimal.length} of them are such that no other is better in both.`,
    note: 'Each point is one set of options at the trace’s own load. On the dashed line no other is better in both latencies; its crosses are the error band. Point at one for the command line of vLLM.',
    drawing: drawn.length === 0 ? 'No point brought tokens.' : drawingOf(option, '{3}', lines),
  };
}

/** A chart of the best and the median point of each value of an option, relative to the bounds. */
export function knobChart({ knob, values }: Sensitivity): Chart {
  const color = colorOf(SOURCE);
  const source = values.map(({ value, best, median }) => [value, percentOf(best), percentOf(median)]);
  const line = (column: number, own: object): object => ({
    type: 'line',
    encode: { x: 0, y: column },
    symbolSize: 7,
    symbol: 'circle',
    ...own,
  });
  const option: EChartsOption = {
    dataset: { source },
    xAxis: xAxis(knob, { type: 'category' }),
    yAxis: yAxis(
      '% of the nearest bound',
      logAxis([100, ...values.flatMap(({ best, median }) => [percentOf(best), percentOf(median)])]),
    ),
    series: [
      line(1, { lineStyle: { color, width: 1.6 }, itemStyle: { color }, markLine: bounds([{ yAxis: 100 }]) }),
      line(2, {
        lineStyle: { color: SECOND_COLOR, width: 1.2, type: [4, 3] },
        itemStyle: { color: SECOND_COLOR },
      }),
    ] as Series,
  };
  const lines = [
    { label: 'best', color, text: '{1} %' },
    { label: 'middle', color: SECOND_COLOR, text: '{2} %' },
  ];
  return {
    id: `knob-${knob}`,
    title: knob,
    source: SOURCE,
    description: `${knob}: ${values.map(({ value, best }) => `${value}: ${figure(100 * Math.min(MOST_STRAIN, best))} %`).join(', ')} of the nearest bound at best.`,
    drawing: drawingOf(option, `${knob} {0}`, lines),
  };
}

/** A chart of a finalist relative to the bounds, as the load grows. */
export function loadChart({ point, capacity, band }: Finalist, i: number): Chart {
  const color = colorOf(SOURCE);
  const source = capacity.tried.map(({ requestsPerSecond, strain }) => [
    coarse(requestsPerSecond),
    percentOf(strain),
  ]);
  const area =
    band === null || band[1] === band[0]
      ? {}
      : {
          markArea: {
            silent: true,
            itemStyle: { color: 'var(--shade)' },
            data: [[{ xAxis: coarse(band[0]) }, { xAxis: coarse(band[1]) }]],
          },
        };
  const option: EChartsOption = {
    dataset: { source },
    xAxis: xAxis('requests per second', logAxis(source.map(([load]) => load))),
    yAxis: yAxis('% of the nearest bound', logAxis([100, ...source.map((row) => row[1])])),
    series: {
      type: 'line',
      encode: { x: 0, y: 1 },
      symbol: 'circle',
      symbolSize: 6,
      lineStyle: { color, width: 1.6 },
      itemStyle: { color },
      markLine: bounds([{ yAxis: 100 }]),
      ...area,
    } as Series,
  };
  const lines = [{ label: 'of the nearest bound', color, text: '{1} %' }];
  return {
    id: `load-${i}`,
    title: pointInWords(point),
    source: SOURCE,
    description: `The objective is met up to ${figure(capacity.requestsPerSecond)} requests a second.`,
    note:
      capacity.requestsPerSecond === 0
        ? 'The objective is met at no load that was tried.'
        : `Kept up to ${figure(capacity.requestsPerSecond)} requests/s${band === null ? '' : `; by other fits ${figure(band[0])} to ${figure(band[1])}`}.`,
    drawing: drawingOf(option, '{0} requests/s', lines),
  };
}

/** How many engines each part of the trace needs. */
export function fleetChart(windows: readonly EngineWindow[]): Chart {
  const color = colorOf(SOURCE);
  const seconds = (ms: number): number | null => coarse(ms / 1000);
  const source = windows.map(({ fromMs, untilMs, engines, requests }) => [
    seconds(fromMs),
    seconds(untilMs),
    engines,
    requests,
  ]);
  const last = windows[windows.length - 1];
  source.push([seconds(last.untilMs), seconds(last.untilMs), last.engines, last.requests]);
  const option: EChartsOption = {
    dataset: { source },
    xAxis: xAxis('seconds since the first arrival', { type: 'value', max: 'dataMax' }),
    yAxis: yAxis('engines', { type: 'value', minInterval: 1, min: 0 }),
    series: {
      type: 'line',
      encode: { x: 0, y: 2 },
      step: 'end',
      symbol: 'none',
      lineStyle: { color, width: 1.6 },
      areaStyle: { color, opacity: 0.15 },
      itemStyle: { color },
    } as Series,
  };
  const lines = [
    { label: 'engines', color, text: '{2}' },
    { label: 'requests', color: SECOND_COLOR, text: '{3}' },
  ];
  const known = windows.map(({ engines }) => engines ?? 0);
  return {
    id: 'fleet',
    title: 'Engines over time',
    source: SOURCE,
    wide: true,
    description: `The fewest engines that meet the objective, in ${windows.length} parts of the trace: from ${Math.min(...known)} to ${Math.max(...known)}.`,
    note: 'The fewest, of the numbers that were tried, that meet the objective for the requests that arrive in each part. A gap: not even the most that were tried do.',
    drawing: drawingOf(option, '{0} s to {1} s', lines),
  };
}
