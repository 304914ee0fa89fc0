// The program: runs all programs, and writes docs/benchmarks.md.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { parseArgs } from 'node:util';
import { scriptArguments } from '../../src/base/scripts/script-file.js';
import { gpuSpeed } from '../gpu/record/speed.js';
import { type Machine, REPOSITORY, readMachine, shortCommit } from '../machine.js';
import { defaultFile, newestWithParts, type Results, readResults, writeResults } from '../rows/results.js';
import { answerHelp } from '../usage.js';
import { benchmarksPage, PAGE, replaceSpeed, speedSection } from './page.js';
import { PARTS, type Part, type PartProgram, tablesOf, tracePrograms } from './parts.js';

const USAGE = `Usage: npm run bench:docs -- [RESULT] [--write]
       npm run bench:docs -- --run [--mooncake FILE] [--azure FILE] [--quick] [--write]

Writes docs/benchmarks.md and the speed section of README.md from one result. Nothing on
that page is written by hand: its words are in bench/docs, its figures in the result.

  RESULT           a result of --run (default: the newest in bench/results)
  --run            measures first: npm run bench and every other program of the page, at
                   the commit that is checked out. It takes about an hour on a quiet
                   machine, needs a clean tree, and writes each result as it comes
  --mooncake FILE  traces for the offload section; without them it says that they are
  --azure FILE     not in this run
  --quick          few samples, and short runs of the other programs: for a trial
  --write          writes the page and README.md; without it, prints the page`;

/** Runs a program of the benchmark. @returns its output, or the reason why it could not run */
function runPart({ name, script, ...given }: PartProgram, isQuick: boolean): Part {
  const begin = performance.now();
  const program = scriptArguments(import.meta.url, `../${script}`);
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['--expose-gc', ...program, ...(isQuick ? given.quick : given.args)],
    {
      encoding: 'utf8',
      maxBuffer: 2 ** 26,
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  const seconds = Math.round((performance.now() - begin) / 1000);
  const tables = tablesOf(stdout);
  if (status === 0 && tables !== '') return { name, tables, error: null, seconds };
  const error = /^\w*Error:.*$/m.exec(stderr)?.[0] ?? stderr.trim().split('\n').at(-1) ?? '';
  return { name, tables: null, error: error || `exit code ${status}`, seconds };
}

/** Measures everything at one commit. @returns the file of the result */
function runAll(programs: readonly PartProgram[], quick: boolean): string {
  const machine = readMachine();
  if (machine.commit === null || machine.dirty !== false)
    throw new Error('--run wants a checkout without changes: the page names one commit');
  const file = defaultFile({ machine });
  console.error('npm run bench');
  const args = ['--expose-gc', ...scriptArguments(import.meta.url, '../main'), '--out', file];
  const { status } = spawnSync(process.execPath, quick ? [...args, '--quick'] : args, {
    stdio: ['ignore', 2, 2],
  });
  if (status !== 0) throw new Error(`npm run bench ended by exit code ${status}`);
  let results: Results = { ...readResults(file), parts: [] };
  for (const program of programs) {
    console.error(program.command);
    checkUnchanged(machine);
    const part = runPart(program, quick);
    if (part.error !== null) console.error(`  could not run: ${part.error}`);
    results = { ...results, parts: [...(results.parts ?? []), part] };
    writeResults(file, results);
  }
  checkUnchanged(machine);
  return file;
}

/** @throws Error if the checkout is not what it was when the run began */
function checkUnchanged(began: Machine): void {
  const now = readMachine();
  if (now.commit !== began.commit || now.dirty)
    throw new Error(`the checkout has changed since ${shortCommit(began)}: the page names one commit`);
}

function main(): void {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      run: { type: 'boolean', default: false },
      mooncake: { type: 'string' },
      azure: { type: 'string' },
      quick: { type: 'boolean', default: false },
      write: { type: 'boolean', default: false },
    },
  });
  const { run, mooncake, azure, quick, write } = values;
  if (positionals.length > (run ? 0 : 1)) throw new Error(`unexpected argument ${positionals.at(-1)}`);
  if (!run && (quick || mooncake !== undefined || azure !== undefined))
    throw new Error('--quick, --mooncake and --azure go with --run');
  const programs = [...PARTS, ...tracePrograms(mooncake, azure)];
  const file = run ? runAll(programs, quick) : (positionals[0] ?? newestWithParts());
  if (file === null) throw new Error('there is no result of all parts yet: npm run bench:docs -- --run');
  const results = readResults(file);
  const page = benchmarksPage(results, relative(REPOSITORY, file));
  if (!write) {
    console.log(page);
    return;
  }
  writeFileSync(PAGE, page);
  const readme = join(REPOSITORY, 'README.md');
  writeFileSync(readme, replaceSpeed(readFileSync(readme, 'utf8'), speedSection(results, gpuSpeed())));
}

answerHelp(USAGE);
try {
  main();
} catch (error) {
  console.error(`bench:docs: ${(error as Error).message}`);
  process.exitCode = 1;
}
