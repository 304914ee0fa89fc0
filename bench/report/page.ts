import { commandLine } from '../../src/cli/shell.js';
import type { Chart } from '../../src/report/chart.js';
import { datum } from '../../src/report/figures.js';
import { type Html, html } from '../../src/report/html.js';
import type { PlotLibrary } from '../../src/report/library.js';
import { renderPage, type Section } from '../../src/report/page.js';
import { dataTable, factTable } from '../../src/report/tables.js';
import { judge } from '../budgets.js';
import type { Results } from '../results.js';
import type { Group, Row } from '../row.js';
import { budgetChart } from './budget-chart.js';
import { rangeChart } from './range-chart.js';
import { scalingChart } from './scaling-chart.js';

/** The page of one run of the benchmark, or of a result shown again by the command `args`. */
export function benchPage(results: Results, library: PlotLibrary, args: readonly string[]): string {
  const { machine, rows, quick } = results;
  const groups = [...new Set(rows.map(({ group }) => group))];
  const verdicts = judge(rows);
  const sections: Section[] = [];
  if (rows.some(({ group }) => group === 'decode')) {
    sections.push({ title: 'Beside other schedulers', charts: [scalingChart(rows)] });
  }
  if (verdicts.length > 0) sections.push({ title: 'Against the budgets', charts: [budgetChart(verdicts)] });
  const timed = groups.filter((group) => rows.some((row) => row.group === group && row.latency));
  sections.push({ title: 'All times', charts: timed.map((group): Chart => rangeChart(group, rows)) });
  for (const group of groups.filter((name) => !timed.includes(name))) {
    sections.push({ title: `All of ${group}`, content: valueTable(group, rows) });
  }
  sections.push({ title: 'How it was measured', content: provenance(results, library, args) });
  return renderPage(
    {
      title: 'The step benchmark of blockstep',
      plainTitle: 'The step benchmark – blockstep',
      lead: html`Every time is <strong>measured</strong>: one operation on one thread, Node-API included, the model’s time never. Those of other schedulers come from <strong>another machine</strong> and are labelled so.`,
      warning: quick ? 'A quick run: few samples, so the p99 is rough.' : null,
      sections,
      footer: html`<p>Measured on ${machine.date}.</p>`,
      data: results,
    },
    library,
  );
}

function valueTable(group: Group, rows: readonly Row[]): Html {
  const own = rows.filter((row) => row.group === group);
  return dataTable(
    [group, 'value', 'unit'],
    own.map(({ name, value, unit }) => [name, datum(value), unit]),
  );
}

function provenance({ machine, rows }: Results, library: PlotLibrary, args: readonly string[]): Html {
  const { cpu, cores, memoryGiB, platform, load, node, v8, commit, dirty, date, blockHash } = machine;
  const loop = rows.find(({ group }) => group === 'calibration');
  return factTable([
    ['Command', html`<code>${commandLine(['npm', 'run', 'bench', '--', ...args])}</code>`],
    ['Machine', `${cpu}, ${cores} cores, ${memoryGiB} GiB, ${platform}`],
    ['Load when it began', `${load.join(', ')} over 1, 5 and 15 minutes`],
    ['Versions', `Node ${node}, V8 ${v8}, ${library.name} ${library.version}`],
    ['Commit', html`<code>${commit ?? 'none'}</code>${dirty ? ', with changes' : ''}`],
    ['Block hash', blockHash],
    ['Date', date],
    ...(loop ? [[`${loop.name}, µs`, datum(loop.value)] as const] : []),
  ]);
}
