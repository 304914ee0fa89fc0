// Rows and verdicts as tables for a terminal, and tables in Markdown.
import Table from 'cli-table3';
import { inWords, type Verdict } from './budgets.js';
import { BARE_LOOP, type Group, type Row } from './row.js';

/** The rows of one group as tables, times first. Times are also given per request, and as a multiple of the bare loop. */
export function renderRows(group: Group, rows: readonly Row[]): string {
  const all = rows.filter((row) => row.group === group);
  const values = all.filter((row) => row.latency === undefined);
  const own = all.filter((row) => row.latency !== undefined);
  if (own.length === 0) return renderValues(group, values);
  const loop = rows.find((row) => row.name === BARE_LOOP);
  const head = [`${group}, us`, 'min', 'p1', 'p50', 'p90', 'p99', 'p50 / request', 'p50 / bare loop'];
  const body = own.map((row) => {
    const { min, p1, p50, p90, p99 } = row.latency as Required<Row>['latency'];
    const perRequest = row.requests === undefined ? '' : figure(p50 / row.requests);
    const inLoops = loop === undefined ? '' : figure(p50 / loop.value);
    return [row.name, ...[min, p1, p50, p90, p99].map(figure), perRequest, inLoops];
  });
  const times = render(head, body);
  return values.length === 0 ? times : `${times}\n${renderValues(group, values)}`;
}

export function renderVerdicts(verdicts: readonly Verdict[]): string {
  const head = ['budget', 'unit', 'limit', 'measured', 'verdict', 'fastest sample'];
  const body = verdicts.map((verdict) => [
    verdict.what,
    verdict.unit,
    String(verdict.limit),
    figure(verdict.measured),
    inWords(verdict.ratio),
    verdict.bestRatio === null ? '' : inWords(verdict.bestRatio),
  ]);
  return render(head, body);
}

/** A table whose first column is aligned to the left, and the others to the right. */
export function render(head: readonly string[], body: readonly (readonly string[])[]): string {
  const table = new Table({
    head: [...head],
    colAligns: head.map((_, column) => (column === 0 ? 'left' : 'right')),
    style: { head: [], border: [], compact: true },
  });
  table.push(...body.map((cells) => [...cells]));
  return table.toString();
}

/** The same in Markdown. */
export function markdown(head: readonly string[], body: readonly (readonly string[])[]): string {
  const rule = head.map((_, column) => (column === 0 ? '---' : '---:'));
  return [head, rule, ...body].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** A number in three significant digits, more only before the point; whole numbers as they are. */
export function figure(value: number): string {
  if (Number.isInteger(value)) return String(value);
  if (Math.abs(value) >= 100) return value.toFixed(0);
  return value.toFixed(Math.abs(value) >= 10 ? 1 : Math.abs(value) >= 1 ? 2 : 3);
}

function renderValues(group: Group, rows: readonly Row[]): string {
  return render(
    [group, 'value', 'unit'],
    rows.map((row) => [row.name, figure(row.value), row.unit]),
  );
}
