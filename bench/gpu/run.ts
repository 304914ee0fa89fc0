// Runs every requested check, and records each at its end.
import { judgeComparison, runComparison, runNative } from './checks/comparison.js';
import { measureFigures, measureThroughNode } from './checks/figures.js';
import { buildNative, type NativePrograms } from './checks/native-build.js';
import { SANITIZED_STEPS, SANITIZERS, type Sanitizer, sanitize } from './checks/sanitizers.js';
import { runSuite, SUITES } from './checks/suites.js';
import { terminateWorkers } from './checks/termination.js';
import type { Ended } from './host/command.js';
import { probeInProcess, readClocks } from './host/host.js';
import type { Part, RunOptions } from './options.js';
import type { GpuRecord, Outcome } from './record/record.js';

/** One check that is to come. */
export interface Planned {
  name: string;
  /** Seconds that it needs on a host of 16 cores with an H200, as far as that was measured. A test adds them up for each call (test/gpu/plan.test.ts). */
  expected: number;
  /** Seconds that it may take. The rest of --minutes reduces it further. */
  limit: number;
  run(limit: number): Promise<Outcome>;
}

/**
 * Steps of the comparison, and of the tables, before the long ones: faults then show in the first
 * minute.
 */
const FIRST_STEPS = { comparison: 5_000, tables: 2_000 } as const;
/** Of a sanitizer alone, first: whether the program gets to its end under it. */
const FIRST_SANITIZED = 50;
/** How often a worker that alone uses the GPU is terminated. */
const TERMINATED = 50;

/** The results that checks leave for later checks. */
export interface Context {
  options: RunOptions;
  record: GpuRecord;
  /** The addon over the emulated GPU; null with a real one. */
  emulatedAddon: string | null;
  /** Null until they are built. */
  programs: NativePrograms | null;
}

/** Runs every check that was asked for, one after the other, and writes each down as soon as it has ended. */
export async function runAll(
  options: RunOptions,
  record: GpuRecord,
  emulatedAddon: string | null,
): Promise<void> {
  for (const { name, limit, expected, run } of planChecks({
    options,
    record,
    emulatedAddon,
    programs: null,
  })) {
    const seconds = Math.min(limit, options.minutes * 60 - record.elapsed);
    const found = seconds < 1 ? noTime() : await run(seconds);
    record.add({ name, ...found });
    const took = `${found.seconds.toFixed(1).padStart(6)} s of ${String(expected).padStart(3)}`;
    console.log(`${found.verdict.padEnd(11)} ${took}  ${name}`);
  }
}

/**
 * The order is: checks that show at once whether the host can be used, then the short form of every
 * check, then the long form. Measurements come before checks that leave the machine warm.
 */
export function planChecks(context: Context): Planned[] {
  const wants = (part: Part): boolean => context.options.only.includes(part);
  const { steps } = context.options;
  const first = Math.min(FIRST_STEPS.comparison, steps);
  return [
    probe(context),
    ...(wants('a') || wants('c') || wants('d') ? [build(context)] : []),
    ...(wants('a') ? [firstCheck(context, 'probe', 3), ...comparisons(context, first)] : []),
    ...(wants('c')
      ? (['memcheck', 'racecheck'] as const).map((tool) => sanitizer(context, tool, 'test', FIRST_SANITIZED))
      : []),
    ...(wants('a')
      ? [
          tables(context, FIRST_STEPS.tables),
          termination(context),
          firstCheck(context, 'capture', 2),
          firstCheck(context, 'held', 15),
        ]
      : []),
    ...(wants('d') ? [figures(context), figuresInNode(context)] : []),
    ...(wants('a') && steps > first ? comparisons(context, steps) : []),
    ...(wants('b') ? suites(context) : []),
    ...(wants('c') ? sanitizers(context) : []),
  ];
}

function probe({ emulatedAddon }: Context): Planned {
  const run = async (): Promise<Outcome> => {
    const env = emulatedAddon === null ? {} : { BLOCKSTEP_ADDON: emulatedAddon };
    const { usable, reason, seconds } = await probeInProcess(env);
    return { verdict: usable ? 'passed' : 'failed', seconds, detail: reason };
  };
  return { name: 'the package can use CUDA', expected: 5, limit: 60, run };
}

function build(context: Context): Planned {
  const { emulatedAddon, record } = context;
  const capability = record.results.host.gpu?.computeCapability ?? '';
  const architecture = emulatedAddon === null ? capability.replace('.', '') : null;
  const { only } = context.options;
  const checks = only.includes('a') || only.includes('c');
  const targets = [
    ...(checks ? ['cuda_test', 'tables_test', 'first_checks'] : []),
    ...(only.includes('d') ? ['cuda_bench'] : []),
  ];
  const run = async (limit: number): Promise<Outcome> => {
    const { programs, ...found } = await buildNative(architecture, targets, limit);
    context.programs = programs;
    return found;
  };
  return { name: 'native test programs', expected: targets.length === 1 ? 30 : 40, limit: 200, run };
}

/** How the back end lives beside others (native/test/gpu/first_checks.cc). */
function firstCheck(context: Context, check: 'probe' | 'capture' | 'held', expected: number): Planned {
  const what = {
    probe: 'the self-test, a hundred times',
    capture: 'a capture of another thread',
    held: 'a GPU that somebody else holds',
  };
  const run = withPrograms(context, ({ first }, limit) => runNative(first, ['--check', check], limit));
  return { name: what[check], expected, limit: 30 + 2 * expected, run };
}

/** A worker that alone uses CUDA, terminated with copies under way. */
function termination({ emulatedAddon }: Context): Planned {
  const times = emulatedAddon === null ? TERMINATED : 3;
  return {
    name: 'a worker with copies under way is terminated',
    expected: 15,
    limit: 40,
    run: (limit) => terminateWorkers(times, emulatedAddon, limit),
  };
}

/** One run of the program, judged for each authority. */
function comparisons(context: Context, steps: number): Planned[] {
  let ended: Promise<Ended> | null = null;
  return (['host', 'device'] as const).map((authority) => ({
    name: `CUDA against host, ${steps} steps, authority ${authority}`,
    // The second one is judged of the same run.
    expected: authority === 'host' ? Math.ceil(steps / 650) : 0,
    limit: 220,
    run: withPrograms(context, async ({ test }, limit) => {
      ended ??= runComparison(test, steps, limit);
      return judgeComparison(await ended, authority, steps);
    }),
  }));
}

/** Each of its steps is a whole one, gathered, read by a graph and compared. */
function tables(context: Context, most: number): Planned {
  const steps = Math.min(most, Math.max(50, context.options.steps));
  const run = withPrograms(context, ({ tables }, limit) =>
    runNative(tables, ['--steps', String(steps)], limit),
  );
  return { name: 'tables of a step, read by a captured graph', expected: 3, limit: 60, run };
}

function figures(context: Context): Planned {
  const { emulatedAddon, record } = context;
  const run = withPrograms(context, async ({ bench }, limit) => {
    const before = await readClocks();
    const { figures, ...found } = await measureFigures(
      bench,
      emulatedAddon === null ? [] : ['--quick', '1'],
      limit,
    );
    // The emulated GPU shows that the benchmark works; its times are nobody's.
    if (emulatedAddon === null) record.addFigures(figures);
    return { ...found, detail: { said: found.detail, clocks: { before, after: await readClocks() } } };
  });
  return { name: 'figures', expected: 140, limit: 220, run };
}

function figuresInNode({ emulatedAddon, record }: Context): Planned {
  const run = async (limit: number): Promise<Outcome> => {
    const { figures, ...found } = await measureThroughNode(emulatedAddon, limit);
    if (emulatedAddon === null) record.addFigures(figures);
    return found;
  };
  return { name: 'figures in Node', expected: 10, limit: 70, run };
}

function suites({ emulatedAddon }: Context): Planned[] {
  return SUITES.filter(({ short }) => emulatedAddon === null || short.length > 0).map((suite) => ({
    name: `suite ${suite.room}`,
    expected: suite.expected,
    limit: Math.max(60, 2.5 * suite.expected),
    run: (limit) => runSuite(suite, emulatedAddon, limit),
  }));
}

function sanitizers(context: Context): Planned[] {
  return SANITIZERS.flatMap((tool) => [
    sanitizer(context, tool, 'test', SANITIZED_STEPS.test),
    sanitizer(context, tool, 'tables', SANITIZED_STEPS.tables),
  ]);
}

function sanitizer(context: Context, tool: Sanitizer, program: 'test' | 'tables', steps: number): Planned {
  const what = program === 'test' ? 'CUDA against host' : 'tables of a step';
  return {
    name: `compute-sanitizer ${tool}, ${what}, ${steps} steps`,
    expected: 15,
    limit: 45,
    run: withPrograms(context, (built, limit) =>
      context.emulatedAddon === null
        ? sanitize(tool, built[program], steps, limit)
        : Promise.resolve(noGpu()),
    ),
  };
}

/** A check that needs the native programs: without them it has failed, whatever it would have found. */
function withPrograms(
  context: Context,
  run: (programs: NativePrograms, limit: number) => Promise<Outcome>,
): Planned['run'] {
  const missing: Outcome = {
    verdict: 'failed',
    seconds: 0,
    detail: 'the native test programs were not built',
  };
  return (limit) => (context.programs === null ? Promise.resolve(missing) : run(context.programs, limit));
}

function noGpu(): Outcome {
  return { verdict: 'unavailable', seconds: 0, detail: 'there is no GPU' };
}

function noTime(): Outcome {
  return { verdict: 'unfinished', seconds: 0, detail: 'no time was left' };
}
