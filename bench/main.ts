/**
 * The benchmark of blockstep, `npm run bench`; `--help` says what it measures and how to read it (options.ts).
 *
 * The sources are compiled by tsc, as they are for a release. Loaders that transform them on the
 * fly change what V8 makes of the hot loops. The addon is the release build of native/.
 */

import { OutputFile } from '../src/report/output-file.js';
import { loadPlotLibrary } from '../src/report/page/library.js';
import { benchCalibration, CALIBRATION_EFFORT } from './cases/calibration.js';
import { benchCuda, CUDA_EFFORT } from './cases/cuda.js';
import { benchDecode, DECODE_EFFORT } from './cases/decode.js';
import { benchHeap } from './cases/heap.js';
import { benchKvGroups, KV_GROUPS_EFFORT } from './cases/kv-groups.js';
import { benchLives } from './cases/lives.js';
import { benchMixed, MIXED_EFFORT } from './cases/mixed.js';
import { benchOperations, OPERATIONS_EFFORT } from './cases/operations.js';
import { benchReference, REFERENCE_EFFORT } from './cases/reference.js';
import { benchTables, TABLES_EFFORT } from './cases/tables.js';
import { benchTransfers, TRANSFERS_EFFORT } from './cases/transfers.js';
import { benchEngine, ENGINE_EFFORT } from './engine/engine.js';
import { describeMachine, readMachine } from './machine.js';
import { HELP, type Options, readOptions } from './options.js';
import { benchPage } from './report/page.js';
import { judge } from './rows/budgets.js';
import { type Effort, quickened } from './rows/measure.js';
import { defaultFile, type Results, readResults, SCHEMA, writeResults } from './rows/results.js';
import { GROUPS, type Group, type Row } from './rows/row.js';
import { renderRows, renderVerdicts } from './rows/table.js';
import { benchTail } from './tail/main.js';
import { compareBuilds } from './vs/main.js';

function runGroup(group: Group, quick: boolean): Row[] | Promise<Row[]> {
  const effort = (full: Effort) => (quick ? quickened(full) : full);
  switch (group) {
    case 'calibration':
      return benchCalibration(effort(CALIBRATION_EFFORT));
    case 'decode':
      return benchDecode(effort(DECODE_EFFORT));
    case 'mixed':
      return benchMixed(effort(MIXED_EFFORT));
    case 'lives':
      return benchLives(quick ? 1 : 5);
    case 'operations':
      return benchOperations(effort(OPERATIONS_EFFORT));
    case 'kv-groups':
      return benchKvGroups(effort(KV_GROUPS_EFFORT));
    case 'tables':
      return benchTables(effort(TABLES_EFFORT));
    case 'reference':
      return benchReference(effort(REFERENCE_EFFORT));
    case 'transfers':
      return benchTransfers(effort(TRANSFERS_EFFORT));
    case 'heap':
      return benchHeap(quick ? 1000 : 4000);
    case 'engine':
      return benchEngine(effort(ENGINE_EFFORT), quick ? 1 : 5);
    case 'cuda':
      return benchCuda(effort(CUDA_EFFORT));
  }
}

async function measureAll(options: Options): Promise<Results> {
  if (globalThis.gc === undefined) throw new Error('run it by "npm run bench": it needs node --expose-gc');
  const machine = readMachine();
  console.log(describeMachine(machine));
  // The calibration always runs: the ratios of the other groups need it, and it is short.
  const groups = GROUPS.filter((group) => group === 'calibration' || (options.only ?? group) === group);
  const rows: Row[] = [];
  for (const group of groups) {
    const own = await runGroup(group, options.quick);
    rows.push(...own);
    if (own.length > 0) console.log(renderRows(group, rows));
  }
  const verdicts = judge(rows);
  if (verdicts.length > 0) console.log(renderVerdicts(verdicts));
  const results: Results = { schema: SCHEMA, machine, quick: options.quick, rows };
  if (!options.write) return results;
  const file = options.out ?? defaultFile(results);
  writeResults(file, results);
  console.log(`written to ${file}`);
  return results;
}

/** The path of the page: beside the result unless a path was given; null if no page is wanted. */
function pagePath({ report, from, out }: Options): string | null {
  if (report !== '') return report;
  return (from ?? out ?? defaultFile({ machine: readMachine() })).replace(/(\.json)?$/, '.html');
}

async function main(): Promise<void> {
  const args = process.argv.slice(2);
  if (args.some((arg) => /^--vs(=|$)/.test(arg))) {
    compareBuilds(args);
    return;
  }
  if (args.includes('--tail')) {
    benchTail(args);
    return;
  }
  const options = readOptions(args);
  if (options === null) {
    console.log(HELP);
    return;
  }
  const path = pagePath(options);
  // Before anything runs, so that a bad path costs no time.
  const library = path === null ? null : loadPlotLibrary();
  const page = path === null ? null : new OutputFile(path);
  try {
    const results = options.from === null ? await measureAll(options) : readResults(options.from);
    if (page === null || library === null) return;
    page.write(new TextEncoder().encode(benchPage(results, library, args)));
    page.commit();
    console.log(`written to ${page.path}`);
  } finally {
    page?.discard();
  }
}

try {
  await main();
} catch (error) {
  console.error(`bench: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
}
