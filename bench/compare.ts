/**
 * Two results side by side: `npm run bench:compare -- [old.json new.json] [--max-ratio R]`. Without files, the newest
 * result against bench/results/baseline.json.
 *
 * A ratio above 1 is slower, or more. On a noisy machine the ratio of the fastest samples says more than that of the medians. If both
 * runs have a calibration, the last column divides the ratio of the medians by that of the bare loop, which removes the difference in
 * speed of the two machines. With --max-ratio the exit code is 1 if that ratio (without a calibration: the ratio of the medians) is
 * larger than R for any time but those of the calibration, or if nothing could be compared.
 */
import { parseArgs } from 'node:util';
import { describeMachine } from './machine.js';
import { BASELINE, newestFile, type Results, readResults } from './rows/results.js';
import { BARE_LOOP, type Row } from './rows/row.js';
import { figure, render } from './rows/table.js';
import { answerHelp } from './usage.js';

const USAGE = `npm run bench:compare -- [OLD.json NEW.json] [--max-ratio R]
Two results of npm run bench side by side; without files the newest result against bench/results/baseline.json.
  --max-ratio R  fails if a time of the newer one, in relation to the machines' bare loops, is more than R times the older one's
Exit code: 0 compared, 1 something is slower than R, or nothing could be compared, 2 bad arguments.`;

interface Comparison {
  old: Row;
  new: Row;
  ratio: number;
  /** Ratio of the fastest samples; null for what is not a time. */
  minRatio: number | null;
  /** `ratio` divided by that of the bare loop; null for what is not a time, and without calibration. */
  relative: number | null;
}

/** Pairs the rows of two results by group and name; rows that only one of them has are left out. */
function compareResults(older: Results, newer: Results): Comparison[] {
  const loop = ({ rows }: Results) => rows.find((row) => row.name === BARE_LOOP)?.value;
  const [oldLoop, newLoop] = [loop(older), loop(newer)];
  const machines = oldLoop === undefined || newLoop === undefined ? null : newLoop / oldLoop;
  const comparisons: Comparison[] = [];
  for (const row of newer.rows) {
    const old = older.rows.find((candidate) => key(candidate) === key(row));
    if (old === undefined || !(old.value > 0)) continue;
    const ratio = row.value / old.value;
    const minRatio = row.latency && old.latency ? row.latency.min / old.latency.min : null;
    const relative = row.latency && machines !== null ? ratio / machines : null;
    comparisons.push({ old, new: row, ratio, minRatio, relative });
  }
  return comparisons;
}

function key({ group, name, unit }: Row): string {
  return `${group}/${name}/${unit}`;
}

function print(older: Results, newer: Results, comparisons: readonly Comparison[]): void {
  console.log(`old: ${describeMachine(older.machine)}${older.quick ? ' (quick)' : ''}`);
  console.log(`new: ${describeMachine(newer.machine)}${newer.quick ? ' (quick)' : ''}`);
  const ratio = (value: number | null) => (value === null ? '' : figure(value));
  const body = comparisons.map((row) => [
    `${row.new.group}: ${row.new.name}, ${row.new.unit}`,
    figure(row.old.value),
    figure(row.new.value),
    ratio(row.ratio),
    ratio(row.minRatio),
    ratio(row.relative),
  ]);
  console.log(render(['', 'old', 'new', 'new / old', 'of min', 'relative to bare loop'], body));
}

function main(): number {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { 'max-ratio': { type: 'string' } },
  });
  const maxRatio = values['max-ratio'] === undefined ? null : Number(values['max-ratio']);
  if (maxRatio !== null && !(maxRatio > 0)) throw new Error('--max-ratio must be a number above 0');
  if (positionals.length !== 0 && positionals.length !== 2) {
    throw new Error('give two result files, the older first, or none');
  }
  const [oldFile, newFile] = positionals.length === 2 ? positionals : [BASELINE, newestFile()];
  if (newFile === null) throw new Error('there is no result yet: npm run bench');

  const [older, newer] = [readResults(oldFile), readResults(newFile)];
  const comparisons = compareResults(older, newer);
  print(older, newer, comparisons);
  if (maxRatio === null) return 0;
  const slower = comparisons.filter(({ new: row, ratio, relative }) => {
    return row.latency !== undefined && row.group !== 'calibration' && (relative ?? ratio) > maxRatio;
  });
  for (const { new: row } of slower) console.log(`slower than ${maxRatio}x: ${row.group}: ${row.name}`);
  return slower.length > 0 || comparisons.length === 0 ? 1 : 0;
}

answerHelp(USAGE);
try {
  process.exitCode = main();
} catch (error) {
  console.error(`bench:compare: ${(error as Error).message}`);
  process.exitCode = 2;
}
