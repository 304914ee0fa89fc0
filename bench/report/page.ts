// The page of a report.
import { commandLine } from '../../src/cli/terminal/command-line.js';
import type { Chart } from '../../src/report/charts/chart.js';
import { datum } from '../../src/report/markup/figures.js';
import { type Html, html } from '../../src/report/markup/html.js';
import { dataTable, factTable } from '../../src/report/markup/tables.js';
import type { PlotLibrary } from '../../src/report/page/library.js';
import { renderPage, type Section } from '../../src/report/page/page.js';
import { judge } from '../rows/budgets.js';
import type { Results } from '../rows/results.js';
import type { Group, Row } from '../rows/row.js';
import { budgetChart } from './budget-chart.js';
import { GROUP_WORDS } from './groups.js';
import { headline } from './headline.js';
import { rangeChart } from './range-chart.js';
import { scalingChart } from './scaling-chart.js';

/** The page of one run of the benchmark, or of a result shown again by the command `args`. */
export function benchPage(results: Results, library: PlotLibrary, args: readonly string[]): string {
  const { machine, rows, quick } = results;
  const groups = [...new Set(rows.map(({ group }) => group))];
  const verdicts = judge(rows);
  const sections: Section[] = [];
  if (rows.some(({ group }) => group === 'decode')) {
    sections.push({ title: 'How a step scales', charts: [scalingChart(rows)] });
  }
  if (verdicts.length > 0)
    sections.push({ title: 'Against our own limits', charts: [budgetChart(verdicts)] });
  const timed = groups.filter((group) => rows.some((row) => row.group === group && row.latency));
  sections.push({
    title: 'All times',
    intro: 'The point and the number are the p50, the bar reaches from p1 to p99.',
    charts: timed.map((group) => timesOf(group, rows)),
  });
  for (const group of groups.filter((name) => !timed.includes(name))) {
    const own = rows.filter((row) => row.group === group);
    sections.push({ ...GROUP_WORDS[group], content: valueTable(own) });
  }
  sections.push({ title: 'How it was measured', content: provenance(results, library, args) });
  return renderPage(
    {
      brand: 'blockstep bench',
      title: 'What a step costs',
      plainTitle: 'The step benchmark – blockstep',
      lead: html`The scheduler’s own time, <span class="measured">measured</span> by the clock on ${machine.cpu}, ${machine.cores} cores: one operation on one thread, through Node-API. A model’s time is never part of it. p50 is the time that half of the samples did not exceed, p99 that of 99 in 100.`,
      source: 'measured',
      warnings: quick ? [html`<strong>A quick run</strong>: few samples, so the p99 is rough.`] : [],
      tiles: headline(rows, verdicts),
      sections,
      footer: html`<p>Measured on ${machine.date.slice(0, 16).replace('T', ' ')} UTC.</p>`,
      data: results,
    },
    library,
  );
}

/** The times of one group drawn, and all its figures in tables. */
function timesOf(group: Group, rows: readonly Row[]): Chart {
  const values = rows.filter((row) => row.group === group && row.latency === undefined);
  const { table = null, ...chart } = rangeChart(group, rows);
  const others = values.length > 0 && valueTable(values);
  return { ...chart, table: html`<details><summary>All figures</summary>${table}${others}</details>` };
}

function valueTable(rows: readonly Row[]): Html {
  return dataTable(
    ['', 'value', 'unit'],
    rows.map(({ name, value, unit }) => [name, datum(value), unit === 'us' ? 'µs' : unit]),
  );
}

function provenance({ machine, rows }: Results, library: PlotLibrary, args: readonly string[]): Html {
  const { cpu, cores, memoryGiB, platform, load, node, v8, commit, dirty, date } = machine;
  const loop = rows.find(({ group }) => group === 'calibration');
  return factTable([
    ['Command', html`<code>${commandLine(['npm', 'run', 'bench', '--', ...args])}</code>`],
    ['Machine', `${cpu}, ${cores} cores, ${memoryGiB} GiB, ${platform}`],
    ['Load when it began', `${load.join(', ')} over 1, 5 and 15 minutes`],
    ['Versions', `Node ${node}, V8 ${v8}, ${library.name} ${library.version}`],
    ['Commit', html`<code>${commit ?? 'none'}</code>${dirty ? ', with changes' : ''}`],
    ['Date', date],
    ...(loop ? [[`${loop.name}: p50, µs`, datum(loop.value)] as const] : []),
  ]);
}
