// Suites of `npm test`, with every core mirrored on the GPU; those of `cuda` place their cores
// themselves.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { runCommand } from '../host/command.js';
import { TREE } from '../host/tree.js';
import type { Outcome } from '../record/record.js';
import { words } from './native-build.js';

/** A room of `npm test` that runs on the CUDA back end. */
export interface Suite {
  /** Its folder in test/. */
  room: string;
  /**
   * Files of it that do not run there. Suites that start processes, compilers or browsers load the
   * package themselves.
   */
  without: readonly string[];
  /**
   * The part that runs over the emulated GPU, where every thread of a kernel is one of the host. It
   * is enough to see that the way works.
   */
  short: readonly string[];
  /** Seconds that it needs on a host of 16 cores with an H200. Of core and scheduler measured, of the others estimated, rather too many. */
  expected: number;
  /** Its tests say themselves where each core is, and some make a mirror wrong or a GPU hang on purpose: no core is mirrored beside. */
  placesItself?: true;
}

export const SUITES: readonly Suite[] = [
  // backend: the default of suites that ask for none. gyp: a build without CUDA.
  {
    room: 'core',
    without: ['backend', 'gyp', 'lifetime'],
    short: ['contract', 'core', 'misuse'],
    expected: 15,
  },
  // connector/connector: it runs the TypeScript compiler over the package, and is the same wherever the cores are.
  // steady: no step is repeated where a core is mirrored.
  {
    room: 'scheduler',
    without: ['connector/connector', 'steady/steady', 'steady/twins'],
    short: ['life/life-cycle', 'request/outstanding', 'update/step-failure'],
    expected: 30,
  },
  { room: 'parity', without: ['main'], short: ['connector'], expected: 40 },
  { room: 'guards', without: [], short: ['steps-in-flight'], expected: 25 },
  // quick-start: a program of its own, which needs packages that are large.
  { room: 'engine', without: ['quick-start', 'misuse/lifetime'], short: ['loop/steps'], expected: 35 },
  { room: 'executors/reference', without: [], short: [], expected: 25 },
  { room: 'executors/cost-model', without: [], short: [], expected: 10 },
  { room: 'transfer', without: ['lifetime'], short: [], expected: 25 },
  { room: 'cuda', without: [], short: ['decided-scheduler'], expected: 40, placesItself: true },
];

/** Processes at once: each has a context of its own on the GPU, and they take turns on it. */
export const MOST_WORKERS = 3;
/** Failures that are written down of each suite. */
const KEPT_FAILURES = 10;

/** The report of vitest's JSON reporter, as far as it is read here. */
interface Report {
  numTotalTests: number;
  numPassedTests: number;
  numFailedTests: number;
  numPendingTests: number;
  testResults: {
    name: string;
    status: string;
    message: string;
    assertionResults: { status: string; fullName: string; failureMessages: string[] }[];
  }[];
}

/** Arguments of vitest that choose what runs of a suite. */
export function selection({ room, without, short }: Suite, emulated: boolean): string[] {
  if (emulated) return short.map((file) => `test/${room}/${file}.test.ts`);
  return [`test/${room}/`, ...without.flatMap((file) => ['--exclude', `test/${room}/${file}.test.ts`])];
}

/** (b) One suite of `npm test` with every core mirrored on the GPU (test/support/backend.ts), or where its tests place it. */
export async function runSuite(suite: Suite, addon: string | null, limit: number): Promise<Outcome> {
  const emulated = addon !== null;
  const folder = mkdtempSync(join(tmpdir(), 'blockstep-suite-'));
  const file = join(folder, 'report.json');
  try {
    const vitest = join(TREE, 'node_modules', 'vitest', 'vitest.mjs');
    const workers = Math.max(1, Math.min(MOST_WORKERS, availableParallelism() - 1));
    const options = ['--config', 'test/vitest.config.ts', '--reporter=json', `--outputFile=${file}`];
    const args = [vitest, 'run', ...options, `--maxWorkers=${workers}`, ...selection(suite, emulated)];
    const env = {
      ...(suite.placesItself ? {} : { BLOCKSTEP_TEST_BACKEND: 'cuda' }),
      BLOCKSTEP_TEST_SIZE: emulated ? 'quick' : 'full',
      BLOCKSTEP_TEST_GPU: emulated ? 'emulated' : 'real',
      ...(emulated ? { BLOCKSTEP_ADDON: addon } : {}),
    };
    const ended = await runCommand(process.execPath, args, { limit, cwd: TREE, env });
    const { seconds, timedOut } = ended;
    const report = readReport(file);
    if (report === null) {
      return { verdict: timedOut ? 'unfinished' : 'failed', seconds, detail: words(ended) };
    }
    const judged = judgeSuite(report);
    // If no suite ran, vitest's output says why.
    return report.numTotalTests === 0 ? { ...judged, seconds, detail: words(ended) } : { ...judged, seconds };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Passed only if something ran and nothing failed, files that could not be loaded included. */
export function judgeSuite(report: Report): Pick<Outcome, 'verdict' | 'detail'> {
  const { numPassedTests: passed, numFailedTests: failed, numPendingTests: skipped } = report;
  const broken = report.testResults.filter(({ status, assertionResults }) => {
    return status === 'failed' && assertionResults.every((test) => test.status !== 'failed');
  });
  const failures = [
    ...broken.map(({ name, message }) => ({ test: name, message: firstLines(message) })),
    ...report.testResults.flatMap(({ assertionResults }) =>
      assertionResults
        .filter(({ status }) => status === 'failed')
        .map(({ fullName, failureMessages }) => ({
          test: fullName,
          message: firstLines(failureMessages[0] ?? ''),
        })),
    ),
  ];
  const detail = { passed, failed: failed + broken.length, skipped };
  if (failures.length === 0 && passed > 0) return { verdict: 'passed', detail };
  return { verdict: 'failed', detail: { ...detail, failures: failures.slice(0, KEPT_FAILURES) } };
}

function firstLines(message: string): string {
  return message.split('\n').slice(0, 4).join('\n').slice(0, 600);
}

function readReport(file: string): Report | null {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Report;
  } catch {
    return null;
  }
}
