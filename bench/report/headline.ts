import { datum, decimal } from '../../src/report/markup/figures.js';
import { html } from '../../src/report/markup/html.js';
import type { Tile } from '../../src/report/page/tiles.js';
import type { Verdict } from '../rows/budgets.js';
import type { Group, Row } from '../rows/row.js';

/** The times that represent the rest, by the names of their rows. */
const TIMES: readonly { label: string; group: Group; name: string }[] = [
  { label: 'Step of 256 decodes', group: 'decode', name: '256' },
  { label: 'Step of 1,024 decodes', group: 'decode', name: '1024' },
  { label: 'Mixed step of 256', group: 'mixed', name: 'step' },
  { label: 'Add 2,048 tokens', group: 'operations', name: 'Scheduler.add, hashing' },
  { label: 'Find 2,048 cached tokens', group: 'operations', name: 'full hit, 10k cached' },
  { label: 'Engine step of 256 streams', group: 'engine', name: 'step, 256' },
  { label: 'Drain 1,000 completions', group: 'transfers', name: 'drain 1,000' },
];

/** The figures at the top of the benchmark's page. */
export function headline(rows: readonly Row[], verdicts: readonly Verdict[]): Tile[] {
  const tiles = TIMES.flatMap(({ label, group, name }) => {
    const row = rows.find((each) => each.group === group && each.name === name);
    return row === undefined ? [] : [time(label, row)];
  });
  return verdicts.length === 0 ? tiles : [...tiles, limits(verdicts)];
}

function time(label: string, { value, latency }: Row): Tile {
  const detail = latency === undefined ? '' : html`<strong>${datum(latency.p99)}</strong> µs p99`;
  return { label, value: datum(value), unit: 'µs p50', detail, source: 'measured' };
}

function limits(verdicts: readonly Verdict[]): Tile {
  const missed = verdicts.filter(({ ratio }) => ratio > 1);
  const worst = Math.max(...missed.map(({ ratio }) => ratio - 1));
  return {
    label: 'Our own limits',
    value: `${verdicts.length - missed.length} of ${verdicts.length}`,
    unit: 'met',
    detail: missed.length === 0 ? 'none is missed' : `the others missed by up to ${decimal(100 * worst)} %`,
    source: 'measured',
  };
}
