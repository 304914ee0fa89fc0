import type { EChartsOption } from 'echarts';
import {
  baseOption,
  type Chart,
  colorOf,
  logAxisTicks,
  pointerTooltip,
  xAxis,
} from '../../src/report/charts/chart.js';
import { datum } from '../../src/report/markup/figures.js';
import { dataTable } from '../../src/report/markup/tables.js';
import { inWords, type Verdict } from '../rows/budgets.js';
import { rowAxis, rowLabels, rowsHeight } from './rows.js';

const [MET, MISSED] = [colorOf('measured'), 'var(--warning)'];
/** A smaller share of a limit is drawn at the left edge; the table has the exact figure. */
const LEAST = 0.1;

/** A chart of each budget's figure divided by its limit. Budgets to the right of 1 were missed. */
export function budgetChart(verdicts: readonly Verdict[]): Chart {
  const ratios = verdicts.map(({ ratio }) => Math.max(LEAST, ratio));
  const high = 1.25 * Math.max(2, ...ratios);
  const ticks = (most: number): object => logAxisTicks(LEAST, high, most);
  const option: EChartsOption = {
    grid: { left: 240, right: 24, top: 28, bottom: 52 },
    tooltip: pointerTooltip('shadow'),
    xAxis: xAxis('measured / limit, on a logarithmic scale', {
      type: 'log',
      min: LEAST,
      max: high,
      ...ticks(8),
    }),
    yAxis: rowAxis(
      verdicts.map(({ what }) => what),
      220,
    ),
    series: {
      type: 'scatter',
      name: 'budgets',
      encode: { x: 1, y: 0 },
      data: verdicts.map(({ what, measured, limit, ratio }, i) => ({
        value: [what, ratios[i], measured, limit],
        symbol: ratio <= 1 ? 'circle' : 'diamond',
        symbolSize: ratio <= 1 ? 11 : 15,
        itemStyle: { color: ratio <= 1 ? MET : MISSED },
      })),
      markLine: {
        symbol: 'none',
        silent: true,
        lineStyle: { color: 'var(--text)', width: 1, type: 'solid' },
        label: { formatter: 'limit', position: 'start', color: 'var(--text)', fontSize: 12 },
        data: [{ xAxis: 1 }],
      },
    },
  };
  const words = verdicts.map(({ what, ratio }) => `${what} ${inWords(ratio)}`);
  return {
    id: 'budgets',
    title: 'Measured, as a multiple of the limit',
    source: 'measured',
    wide: true,
    height: rowsHeight(verdicts.map(({ what }) => what)),
    note: `We set these limits ourselves. Left of the line they are met (circles), right of it missed (red diamonds). What is below ${LEAST} of its limit stands at the left edge.`,
    description: `What became of the limits: ${words.join('; ')}.`,
    drawing: {
      option: baseOption(option, {
        grid: { left: 136, right: 16, top: 28, bottom: 52 },
        xAxis: ticks(3),
        yAxis: rowLabels(122, 11),
      }),
      tooltip: {
        heading: '{0}',
        format: 'figure',
        lines: [{ label: 'measured', color: MET, text: '{2}, limit {3}' }],
      },
    },
    table: dataTable(
      ['', 'unit', 'limit', 'measured', 'verdict'],
      verdicts.map(({ what, unit, limit, measured, ratio }) => [
        what,
        unit,
        datum(limit),
        datum(measured),
        inWords(ratio),
      ]),
    ),
  };
}
