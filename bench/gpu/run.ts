import { judgeComparison, runComparison, runNative } from './checks/comparison.js';
import { measureFigures, measureThroughNode } from './checks/figures.js';
import { buildNative, type NativePrograms } from './checks/native-build.js';
import { SANITIZED_STEPS, SANITIZERS, sanitize } from './checks/sanitizers.js';
import { runSuite, SUITES } from './checks/suites.js';
import type { Ended } from './host/command.js';
import { probeInProcess } from './host/host.js';
import type { Part, RunOptions } from './options.js';
import type { GpuRecord, Outcome } from './record/record.js';

/**
 * Seconds that one check may take, several times what it should need on a host with many cores. What is left of
 * --minutes cuts them further.
 */
const LIMITS = { probe: 60, build: 240, comparison: 150, figures: 150, suite: 60, sanitizer: 60 } as const;

/** One check that is to come. */
interface Planned {
  name: string;
  limit: number;
  run(limit: number): Promise<Outcome>;
}

/** What checks leave for those behind them. */
interface Context {
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
  const context: Context = { options, record, emulatedAddon, programs: null };
  for (const { name, limit, run } of planChecks(context)) {
    const seconds = Math.min(limit, options.minutes * 60 - record.elapsed);
    const found = seconds < 1 ? noTime() : await run(seconds);
    record.add({ name, ...found });
    console.log(`${found.verdict.padEnd(11)} ${found.seconds.toFixed(1).padStart(6)} s  ${name}`);
  }
}

/** In this order: what is measured comes before what leaves the machine warm or may break the GPU. */
function planChecks(context: Context): Planned[] {
  const wants = (part: Part): boolean => context.options.only.includes(part);
  return [
    probe(context),
    ...(wants('a') || wants('c') || wants('d') ? [build(context)] : []),
    ...(wants('a') ? [...comparisons(context), tables(context)] : []),
    ...(wants('d') ? [figures(context), figuresInNode(context)] : []),
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
  return { name: 'the package can use CUDA', limit: LIMITS.probe, run };
}

function build(context: Context): Planned {
  const { emulatedAddon, record } = context;
  const capability = record.results.host.gpu?.computeCapability ?? '';
  const architecture = emulatedAddon === null ? capability.replace('.', '') : null;
  const run = async (limit: number): Promise<Outcome> => {
    const { programs, ...found } = await buildNative(architecture, limit);
    context.programs = programs;
    return found;
  };
  return { name: 'native test program', limit: LIMITS.build, run };
}

/** One run of the program, judged for each authority. */
function comparisons(context: Context): Planned[] {
  const { steps } = context.options;
  let ended: Promise<Ended> | null = null;
  return (['host', 'device'] as const).map((authority) => ({
    name: `CUDA against host, authority ${authority}`,
    limit: LIMITS.comparison,
    run: withPrograms(context, async ({ test }, limit) => {
      ended ??= runComparison(test, steps, limit);
      return judgeComparison(await ended, authority, steps);
    }),
  }));
}

/** Each of its steps is a whole one, gathered, read by a graph and compared: a hundredth of them does. */
function tables(context: Context): Planned {
  const steps = Math.max(50, Math.ceil(context.options.steps / 100));
  const run = withPrograms(context, ({ tables }, limit) => runNative(tables, steps, limit));
  return { name: 'tables of a step, read by a captured graph', limit: LIMITS.comparison, run };
}

function figures(context: Context): Planned {
  const { emulatedAddon, record } = context;
  const run = withPrograms(context, async ({ bench }, limit) => {
    const { figures, ...found } = await measureFigures(
      bench,
      emulatedAddon === null ? [] : ['--quick', '1'],
      limit,
    );
    // The emulated GPU shows that the benchmark works; its times are nobody's.
    if (emulatedAddon === null) record.addFigures(figures);
    return found;
  });
  return { name: 'figures', limit: LIMITS.figures, run };
}

function figuresInNode({ emulatedAddon, record }: Context): Planned {
  const run = async (limit: number): Promise<Outcome> => {
    const { figures, ...found } = await measureThroughNode(emulatedAddon, limit);
    if (emulatedAddon === null) record.addFigures(figures);
    return found;
  };
  return { name: 'figures in Node', limit: LIMITS.figures, run };
}

function suites({ emulatedAddon }: Context): Planned[] {
  return SUITES.filter(({ short }) => emulatedAddon === null || short.length > 0).map((suite) => ({
    name: `suite ${suite.room}`,
    limit: LIMITS.suite,
    run: (limit) => runSuite(suite, emulatedAddon, limit),
  }));
}

function sanitizers(context: Context): Planned[] {
  const programs = Object.entries(SANITIZED_STEPS) as [keyof typeof SANITIZED_STEPS, number][];
  return SANITIZERS.flatMap((tool) =>
    programs.map(([program, steps]) => ({
      name: `compute-sanitizer ${tool}, ${program === 'test' ? 'CUDA against host' : 'tables of a step'}`,
      limit: LIMITS.sanitizer,
      run: withPrograms(context, (built, limit) =>
        context.emulatedAddon === null
          ? sanitize(tool, built[program], steps, limit)
          : Promise.resolve(noGpu()),
      ),
    })),
  );
}

/** A check that needs the native programs: without them it has failed, whatever it would have found. */
function withPrograms(
  context: Context,
  run: (programs: NativePrograms, limit: number) => Promise<Outcome>,
): Planned['run'] {
  const missing: Outcome = { verdict: 'failed', seconds: 0, detail: 'the native test program was not built' };
  return (limit) => (context.programs === null ? Promise.resolve(missing) : run(context.programs, limit));
}

function noGpu(): Outcome {
  return { verdict: 'unavailable', seconds: 0, detail: 'there is no GPU' };
}

function noTime(): Outcome {
  return { verdict: 'unfinished', seconds: 0, detail: 'no time was left' };
}
