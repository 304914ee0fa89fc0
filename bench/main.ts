/**
 * The benchmark of blockstep: `npm run bench -- --help` says what it takes.
 *
 * How to read the figures. Each is a time of one operation in microseconds, less the time to read the clock. On a quiet
 * machine read the p50, and the p99 for the tail; compare the line "load" first. On a busy machine the p50 tells about
 * the machine: read `min` and `p1`, which are samples that nobody interrupted, and "p50 / bare loop", since the bare
 * loop ran in the same minute; draw no conclusion from absolute figures. `min` alone flatters: of the decodes it is a
 * step without a tick of anything else.
 * A step of a decode fills a block for one request in 16; blocks are published to the prefix cache, which is on. Of
 * "empty" and "cached" pools the second has its free queue full of cached blocks, so that every block that is taken
 * evicts one. The model is never part of a figure, nor is making prompts, nor adding requests unless it says so.
 * Heap bytes count garbage too; "per request" is what one more running request adds to a step.
 *
 * The sources are compiled by tsc, as they are for a release: loaders that transform them on the fly change what V8
 * makes of the hot loops. The addon is the release build of native/.
 */
import { parseArgs } from 'node:util';
import { loadPlotLibrary } from '../src/report/library.js';
import { OutputFile } from '../src/report/output-file.js';
import { judge } from './budgets.js';
import { benchCalibration, CALIBRATION_EFFORT } from './calibration.js';
import { benchCuda, CUDA_EFFORT } from './cuda.js';
import { benchDecode, DECODE_EFFORT } from './decode.js';
import { benchEngine, ENGINE_EFFORT } from './engine.js';
import { benchHeap } from './heap.js';
import { describeMachine, readMachine } from './machine.js';
import { type Effort, quickened } from './measure.js';
import { benchMixed, MIXED_EFFORT } from './mixed.js';
import { benchOperations, OPERATIONS_EFFORT } from './operations.js';
import { benchReference, REFERENCE_EFFORT } from './reference.js';
import { benchPage } from './report/page.js';
import { defaultFile, type Results, readResults, SCHEMA, writeResults } from './results.js';
import { GROUPS, type Group, type Row } from './row.js';
import { renderRows, renderVerdicts } from './table.js';
import { benchTables, TABLES_EFFORT } from './tables.js';
import { benchTransfers, TRANSFERS_EFFORT } from './transfers.js';
import { answerHelp } from './usage.js';

const USAGE = `npm run bench -- [options]
Measures the scheduler and everything around it, prints a table and writes a result file into bench/results.
  --only GROUP     one group of those below
  --quick          few samples: shows that it works, measures nothing
  --out FILE       where the result goes (default: bench/results, named after date and machine)
  --no-write       writes no result
  --report [PAGE]  writes a page with charts too: to PAGE, or beside the result
  --from RESULT    with --report: shows that result, and measures nothing
Groups, in the order in which they run:
  calibration  what the machine does with a bare loop and with an empty native call, to set the rest in relation to
  decode       one whole step, schedule() and update() through Node-API, of 1 to 1,024 running decodes
  mixed        one whole step of a full engine, prefills beside decodes, requests ending and being replaced
  operations   what a request of 2,048 tokens costs at the native border, in pools of 10k to 1M blocks
  tables       gathering the tables of a step for a model runner
  reference    one step of the reference executor
  transfers    draining completions, submitting jobs, and a host lane's throughput against a plain memcpy
  heap         what a step allocates in V8, and what a request holds
  engine       the same steps through an Engine with an executor that does nothing: over the bare scheduler, tokens a second
               through submit, latency under garbage collection, delay of the event loop, heap
  cuda         the steps of decode, mirrored on a GPU and not; only where there is one
Exit code: 0 done, 1 failed or bad options.`;

interface Options {
  only: Group | null;
  quick: boolean;
  out: string | null;
  write: boolean;
  /** Where the page goes; '' = beside the result. */
  report: string | null;
  /** A result to show instead of measuring. */
  from: string | null;
}

function readOptions(): Options {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      only: { type: 'string' },
      quick: { type: 'boolean', default: false },
      out: { type: 'string' },
      'no-write': { type: 'boolean', default: false },
      report: { type: 'boolean', default: false },
      from: { type: 'string' },
    },
  });
  const only = GROUPS.find((group) => group === values.only) ?? null;
  if (values.only !== undefined && only === null) {
    throw new Error(`--only must be one of ${GROUPS.join(', ')}, got ${values.only}`);
  }
  const extra = positionals[values.report ? 1 : 0];
  if (extra !== undefined) throw new Error(`unexpected argument ${extra}`);
  const report = values.report ? (positionals[0] ?? '') : null;
  const { quick, out = null, from = null } = values;
  if (values['no-write'] && report === '')
    throw new Error('--no-write needs the path of the page: --report PAGE');
  if (from !== null && (report === null || quick || out !== null || only !== null)) {
    throw new Error('--from goes with --report alone: it measures nothing');
  }
  return { only, quick, out, write: !values['no-write'], report, from };
}

function runGroup(group: Group, quick: boolean): Row[] | Promise<Row[]> {
  const effort = (full: Effort) => (quick ? quickened(full) : full);
  switch (group) {
    case 'calibration':
      return benchCalibration(effort(CALIBRATION_EFFORT));
    case 'decode':
      return benchDecode(effort(DECODE_EFFORT));
    case 'mixed':
      return benchMixed(effort(MIXED_EFFORT));
    case 'operations':
      return benchOperations(effort(OPERATIONS_EFFORT));
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
  // Without the calibration the other groups' ratios are missing, and it takes a moment only.
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

/** Where the page goes if it is wanted: beside the result, unless a path was given. */
function pagePath({ report, from, out }: Options): string | null {
  if (report !== '') return report;
  return (from ?? out ?? defaultFile({ machine: readMachine() })).replace(/(\.json)?$/, '.html');
}

async function main(): Promise<void> {
  const options = readOptions();
  const path = pagePath(options);
  // Before anything runs, so that a bad path costs no time.
  const library = path === null ? null : loadPlotLibrary();
  const page = path === null ? null : new OutputFile(path);
  try {
    const results = options.from === null ? await measureAll(options) : readResults(options.from);
    if (page === null || library === null) return;
    page.write(new TextEncoder().encode(benchPage(results, library, process.argv.slice(2))));
    page.commit();
    console.log(`written to ${page.path}`);
  } finally {
    page?.discard();
  }
}

answerHelp(USAGE);
try {
  await main();
} catch (error) {
  console.error(`bench: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
}
