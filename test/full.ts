// `npm run test:full`: all suites, proofs included.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { SECONDS_FILE } from './house/quick.js';
import { Checkout } from './proofs/inputs.js';
import { PROOFS, type Proof } from './proofs/proofs.js';
import { hashesNow, NAMES, writeRecord } from './proofs/record.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const USAGE = `npm run test:full [-- ARGUMENTS of vitest]
Runs all suites, prints the slowest, and, where all hold, writes down of which sources (test/proofs/record.json).
  --seconds  runs npm test instead, and writes down what takes long in it (${SECONDS_FILE}), for the house test: on a quiet machine`;
/** Lines of the table at the end. */
const SLOWEST = 20;
/** From so many seconds on the time of a suite is written down. */
const NOTED = 2;

interface Suite {
  /** Its path in the repository. */
  readonly path: string;
  readonly seconds: number;
}

/** Runs vitest. @returns its exit code, and its suites, the slowest first */
function run(size: 'quick' | 'full', more: readonly string[]): { status: number; suites: Suite[] } {
  const folder = mkdtempSync(join(tmpdir(), 'blockstep-suites-'));
  const file = join(folder, 'report.json');
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${file}`];
  const vitest = [join(ROOT, 'node_modules/vitest/vitest.mjs'), 'run', '--config', 'test/vitest.config.ts'];
  try {
    const { status } = spawnSync(process.execPath, [...vitest, ...reporters, ...more], {
      cwd: ROOT,
      stdio: 'inherit',
      env: { ...process.env, BLOCKSTEP_TEST_SIZE: size },
    });
    const { testResults } = JSON.parse(readFileSync(file, 'utf8')) as {
      testResults: { name: string; startTime: number; endTime: number }[];
    };
    const suites = testResults
      .map(({ name, startTime, endTime }) => ({
        path: relative(ROOT, name),
        seconds: (endTime - startTime) / 1000,
      }))
      .sort((a, b) => b.seconds - a.seconds);
    return { status: status ?? 1, suites };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const more = process.argv.slice(2);
if (more.includes('--help')) {
  console.log(USAGE);
  process.exit(0);
}
const isTiming = more[0] === '--seconds';
const proofs = NAMES.filter((name) => (PROOFS[name] as Proof).suites.length > 0);
const now = hashesNow(proofs, Checkout.of(ROOT));
const { status, suites } = run(isTiming ? 'quick' : 'full', isTiming ? more.slice(1) : more);
console.log(`\nthe ${SLOWEST} slowest of ${suites.length} suites`);
for (const { path, seconds } of suites.slice(0, SLOWEST))
  console.log(`${seconds.toFixed(1).padStart(7)} s  ${path}`);
if (status === 0 && isTiming) {
  const noted = suites.filter(({ seconds }) => seconds >= NOTED);
  const entries = noted.map(({ path, seconds }) => [path, Math.round(10 * seconds) / 10]);
  writeFileSync(join(ROOT, SECONDS_FILE), `${JSON.stringify(Object.fromEntries(entries), null, 2)}\n`);
}
// With arguments, suites may have been left out.
if (status === 0 && more.length === 0) writeRecord(now);
process.exitCode = status;
