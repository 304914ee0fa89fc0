import type { EChartsOption, SeriesOption } from 'echarts';
import {
  baseOption,
  type Chart,
  logTicks,
  pointerTooltip,
  SERIES_COLORS,
  xAxis,
  yAxis,
} from '../../src/report/chart.js';
import { datum, figure } from '../../src/report/figures.js';
import { html } from '../../src/report/html.js';
import { dataTable } from '../../src/report/tables.js';
import type { Row } from '../row.js';
import { PEERS, PEERS_MEASURED, type Peer } from './peers.js';

const NAME = 'blockstep';
const TICKS = [1, 8, 32, 64, 128, 256, 512, 1024];
const FEW_TICKS = [1, 8, 64, 256, 1024];
const SYMBOLS = ['circle', 'diamond', 'triangle', 'rect', 'arrow'];
/** Columns of a row of the dataset: number of requests, then our p1, p50, p99, then the peers. */
const [REQUESTS, P1, P50, P99, SPAN, FIRST_PEER] = [0, 1, 2, 3, 4, 5];

/** A decode step by the number of running requests, the peers' beside ours. */
export function scalingChart(rows: readonly Row[]): Chart {
  const ours = rows.filter(({ group, name, latency }) => group === 'decode' && latency && /^\d+$/.test(name));
  const sizes = ours.map(({ name }) => Number(name));
  const all = [...new Set([...sizes, ...PEERS.flatMap(({ points }) => points.map(([size]) => size))])];
  all.sort((a, b) => a - b);
  const source = all.map((size) => {
    const latency = ours[sizes.indexOf(size)]?.latency;
    const own = latency
      ? [latency.p1, latency.p50, latency.p99, latency.p99 - latency.p1]
      : Array(4).fill(null);
    return [size, ...own, ...PEERS.map((peer) => middle(peer, size))];
  });
  const values = source.flatMap((row) => row.slice(P1).filter((value) => value !== null && value > 0));
  const [low, high] = [0.7 * Math.min(...values), 1.5 * Math.max(...values)];
  const valueTicks = logTicks(low, high, 8);
  const option: EChartsOption = {
    grid: { left: 62, right: 30, top: 70, bottom: 52 },
    dataset: { source },
    tooltip: pointerTooltip(),
    legend: {
      data: [NAME, ...PEERS.map(({ name }) => name)],
      left: 0,
      top: 0,
      selectedMode: false,
      textStyle: { color: 'var(--text)', fontSize: 12 },
    },
    xAxis: xAxis('running requests', {
      type: 'log',
      min: 1,
      max: 1100,
      splitLine: { show: false },
      ...ticks(TICKS),
    }),
    yAxis: yAxis('time of a step, µs', { type: 'log', min: low, max: high, ...ticks(valueTicks) }),
    series: [...ownSeries(), ...PEERS.map(peerSeries)],
  };
  return {
    id: 'scaling',
    title: 'One decode step by the number of running requests',
    source: 'measured',
    wide: true,
    height: 440,
    note: `Both axes are logarithmic. ${NAME}: p50, shaded from p1 to p99, on the machine named below. The others: ${PEERS_MEASURED} The machines differ, so the distance between the lines is an order of magnitude and no ratio.`,
    description: describe(ours),
    option: baseOption(option, {
      grid: { left: 62, right: 18, top: 92, bottom: 52 },
      xAxis: ticks(FEW_TICKS),
    }),
    tooltip: {
      heading: '{0} running requests',
      format: 'figure',
      lines: [
        { label: NAME, color: SERIES_COLORS[0], text: `{${P50}} µs (p1 {${P1}}, p99 {${P99}})` },
        ...PEERS.map(({ name }, i) => ({
          label: name,
          color: SERIES_COLORS[i + 1],
          text: `{${FIRST_PEER + i}} µs`,
        })),
      ],
    },
    table: table(ours),
  };
}

function ticks(customValues: number[]): object {
  const axisLabel = { color: 'var(--muted)', fontSize: 12, hideOverlap: true, formatter: 'fn:figure' };
  return { axisTick: { customValues }, axisLabel: { ...axisLabel, customValues } };
}

function ownSeries(): SeriesOption[] {
  const color = SERIES_COLORS[0];
  const band = { type: 'line', stack: 'band', stackStrategy: 'all', symbol: 'none', silent: true } as const;
  return [
    { ...band, name: 'p1', encode: { x: REQUESTS, y: P1 }, lineStyle: { width: 0 }, connectNulls: true },
    {
      ...band,
      name: 'p1 to p99',
      encode: { x: REQUESTS, y: SPAN },
      lineStyle: { width: 0 },
      areaStyle: { color, opacity: 0.24 },
      connectNulls: true,
    },
    {
      type: 'line',
      name: NAME,
      encode: { x: REQUESTS, y: P50 },
      symbol: SYMBOLS[0],
      symbolSize: 7,
      connectNulls: true,
      lineStyle: { color, width: 2.4 },
      itemStyle: { color },
    },
  ];
}

function peerSeries(peer: Peer, i: number): SeriesOption {
  const color = SERIES_COLORS[i + 1];
  const ranges = peer.points.flatMap(([size, us, upTo]) =>
    upTo === undefined ? [] : [[{ coord: [size, us] }, { coord: [size, upTo] }] as [object, object]],
  );
  return {
    type: 'line',
    name: peer.name,
    encode: { x: REQUESTS, y: FIRST_PEER + i },
    symbol: SYMBOLS[i + 1],
    symbolSize: 10,
    connectNulls: true,
    lineStyle: { color, width: 1.4, type: 'dashed' },
    itemStyle: { color },
    ...(ranges.length > 0 && {
      markLine: { symbol: 'none', silent: true, lineStyle: { color, width: 4, type: 'solid' }, data: ranges },
    }),
  };
}

/** A peer's time; of a range its geometric mean, which stands in its middle on a log axis. */
function middle({ points }: Peer, size: number): number | null {
  const point = points.find(([requests]) => requests === size);
  if (point === undefined) return null;
  const [, us, upTo = us] = point;
  return Number(Math.sqrt(us * upTo).toPrecision(3));
}

function table(ours: readonly Row[]): Chart['table'] {
  const time = (peer: Peer, size: number): string => {
    const point = peer.points.find(([requests]) => requests === size);
    if (point === undefined) return '–';
    return point[2] === undefined ? figure(point[1]) : `${point[1]} to ${point[2]}`;
  };
  const own = (size: number) => datum(ours.find(({ name }) => name === String(size))?.latency?.p50 ?? null);
  const body = [
    [html`<strong>${NAME}</strong> (TypeScript, C++)`, own(256), own(1024)],
    ...PEERS.map((peer) => [
      html`<strong>${peer.name}</strong> (${peer.language})${peer.covers !== undefined && `, ${peer.covers}`}, another machine`,
      time(peer, 256),
      time(peer, 1024),
    ]),
  ];
  return dataTable(['p50 of a decode step, µs', '256 requests', '1,024 requests'], body);
}

function describe(ours: readonly Row[]): string {
  const own = ours.map(({ name, value }) => `${name} requests ${figure(value)}`).join(', ');
  const peers = PEERS.map(({ name, points }) => {
    const times = points.map(([size, us, upTo]) => `${size} requests ${upTo ? `${us} to ${upTo}` : us}`);
    return `${name}: ${times.join(', ')}`;
  });
  return `Time of a decode step in microseconds by running requests, log scales. ${NAME}: ${own}. On another machine, ${peers.join('; ')}.`;
}
