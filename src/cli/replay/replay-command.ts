import { type Command, Option } from 'commander';
import { BlockstepError } from '../../base/errors.js';
import { counted } from '../../report/markup/figures.js';
import type { LogSink } from '../../scheduler/options/options.js';
import { resolveOptions } from '../../scheduler/options/resolve-options.js';
import { generateWorkload } from '../../workload/generate.js';
import { readTrace } from '../../workload/trace.js';
import type { Workload } from '../../workload/workload.js';
import { prepareLog } from '../log/log-command.js';
import { optionDescription, optionTerm } from '../terminal/help.js';
import { ExitCode, type Invocation, type Job } from '../terminal/io.js';
import { addSchedulerFlags, schedulerOptions } from '../terminal/scheduler-flags.js';
import { Progress } from './progress.js';
import {
  addCostModelFlags,
  addReplayFlags,
  FILE_FLAGS,
  GENERATOR_FLAGS,
  LOG_FLAGS,
  type ReplayFlags,
} from './replay-flags.js';
import { ReplayOutputs } from './replay-outputs.js';
import { makePrinter, type ReplayPrinter } from './replay-printer.js';
import { makeReport, type Source } from './report/report.js';
import { Replay, type ReplayOptions } from './run/replay.js';
import { ReplaySeries } from './run/replay-series.js';

const SUMMARY = 'replay a trace of requests in virtual time';
const DESCRIPTION =
  'Replays the requests of a trace, or generated ones, through the scheduler in virtual time, and reports throughput, latencies, prefix cache hits and preemptions. No model runs, and no GPU is needed.';

const DETAILS = `
Formats: Mooncake (JSON lines), Azure LLM and BurstGPT (CSV). All of FILE is
checked before anything runs. Only Mooncake's traces say which prompts share
content, so only with them prefix cache hits are possible.

Virtual time passes as the cost model says. Its defaults are an assumption: an
8B model in 16 bits on one H100. The same options give the same decisions, and
so the same digest.

A page or a log is written when the replay has ended or was interrupted, and not
at all after an error. --log goes with --json alone: the options are in the log.

Exit codes: 0 done; 1 failed while it ran; 2 bad options or unusable file;
3 the log decides otherwise; 130 interrupted.

Examples (in a checkout, node dist/cli/main.js in place of npx blockstep):
  npx blockstep replay --report page.html      generated requests, and a page
  npx blockstep replay trace.jsonl             a trace
  npx blockstep replay trace.csv --speed-up 4  another, at four times its load`;

/** Adds the `replay` command. `onReady` is given the replay once the workload is read and the scheduler made. */
export function addReplayCommand(
  program: Command,
  invocation: Invocation,
  onReady: (job: Job) => void,
): void {
  const command = program
    .command('replay')
    .summary(SUMMARY)
    .description(DESCRIPTION)
    .argument('[FILE]', 'trace to replay; without one, requests are generated')
    .addHelpOption(new Option('-h, --help', 'show this').helpGroup('Output:'))
    .configureHelp({ optionTerm, optionDescription });
  addReplayFlags(command);
  command.optionsGroup('Scheduler:');
  addSchedulerFlags(command);
  command.optionsGroup('Cost model:');
  addCostModelFlags(command);
  command.addHelpText('after', DETAILS);
  command.action(async (file: string | undefined) => {
    checkSourceFlags(file, command);
    const { log, json } = command.opts<ReplayFlags>();
    if (log !== undefined) onReady(prepareLog(log, json, invocation.io));
    else onReady(await prepareReplay(file, command.opts(), invocation));
  });
}

/** Refuses flags that would have no effect, because they belong to the other kind of workload. */
function checkSourceFlags(file: string | undefined, command: Command): void {
  const [misplaced, why] = misplacedFlags(file, command);
  for (const name of misplaced) {
    if (command.getOptionValueSource(name) !== 'cli') continue;
    const flag = command.options.find((option) => option.attributeName() === name)!.long;
    throw new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', `${flag} ${why}`);
  }
}

function misplacedFlags(file: string | undefined, command: Command): [names: readonly string[], why: string] {
  if (command.getOptionValueSource('log') === 'cli') {
    if (file !== undefined)
      throw new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', '--log cannot be used with a FILE');
    const all = command.options.map((option) => option.attributeName());
    return [all.filter((name) => !LOG_FLAGS.some((own) => own === name)), 'cannot be used with --log'];
  }
  return file === undefined ? [FILE_FLAGS, 'needs a FILE'] : [GENERATOR_FLAGS, 'cannot be used with a FILE'];
}

async function prepareReplay(
  file: string | undefined,
  values: Record<string, unknown>,
  { io, args }: Invocation,
): Promise<Job> {
  const flags = values as unknown as ReplayFlags;
  const printer = makePrinter(flags, io);
  const outputs = new ReplayOutputs(flags, file);
  try {
    const loaded = await loadWorkload(file, flags, io.signal).catch((error: unknown) => {
      if (io.signal.aborted) return null;
      throw error;
    });
    if (loaded === null) {
      outputs.discard();
      io.stderr.write('interrupted while the trace was read: nothing ran\n');
      return () => Promise.resolve(ExitCode.interrupted);
    }
    const { workload, source } = loaded;
    if (source.firstSkipped !== null) {
      const lines = counted(source.skippedLines, 'malformed line');
      io.stderr.write(`skipped ${lines}, the first: ${source.firstSkipped}\n`);
    }
    const options = replayOptions(flags, values, workload, outputs.recorder);
    const replay = new Replay(workload, options);
    const series = new ReplaySeries(replay.scheduler, replay.lastArrivalMs, workload.length);
    replay.observe(series);
    return () => runReplay({ replay, series, source, options, outputs, printer, io, args });
  } catch (error) {
    outputs.discard();
    throw error;
  }
}

interface Run extends Invocation {
  replay: Replay;
  series: ReplaySeries;
  source: Source;
  options: ReplayOptions;
  outputs: ReplayOutputs;
  printer: ReplayPrinter;
}

async function runReplay({
  replay,
  series,
  source,
  options,
  outputs,
  printer,
  io,
  args,
}: Run): Promise<number> {
  printer.begin(source);
  const bar = io.stderr.isTTY === true ? new Progress(io.stderr, source.requests) : null;
  try {
    const start = performance.now();
    const complete = await replay.run(io.signal, () => bar?.update(replay));
    const wallMs = performance.now() - start;
    bar?.stop();
    // No figures are printed of a scheduler whose state is broken.
    replay.scheduler.verify();
    series.end(replay.nowMs);
    const report = makeReport(replay, series, source, options, !complete, wallMs);
    // Disposing the scheduler writes its last commands into the log.
    replay.dispose();
    printer.report(report);
    outputs.writePage(replay, series, report, args);
    for (const path of outputs.commit()) io.stderr.write(`written to ${path}\n`);
    printer.end(report);
    return complete ? ExitCode.ok : ExitCode.interrupted;
  } finally {
    bar?.stop();
    replay.dispose();
    outputs.discard();
  }
}

async function loadWorkload(
  file: string | undefined,
  flags: ReplayFlags,
  signal: AbortSignal,
): Promise<{ workload: Workload; source: Source }> {
  if (file === undefined) {
    const { requests, requestRate, seed } = flags;
    const workload = generateWorkload({ requests, requestRate, seed });
    const none = { skippedLines: 0, firstSkipped: null, zeroOutputs: 0 };
    return { workload, source: { file: null, format: 'generated', ...told(workload), ...none } };
  }
  const { format, limit, skipBad, seed } = flags;
  const { workload, ...found } = await readTrace(file, { format, limit, skipBad, seed, signal });
  return { workload, source: { file, ...told(workload), ...found } };
}

/** The facts about a workload, for the report. */
function told({ length, hasContents }: Workload): Pick<Source, 'requests' | 'promptContents'> {
  return { requests: length, promptContents: hasContents };
}

function replayOptions(
  flags: ReplayFlags,
  values: Record<string, unknown>,
  workload: Workload,
  log: LogSink | null,
): ReplayOptions {
  const { stepOverheadMs, prefillTokensPerSecond, weightBytes, kvBytesPerToken, memoryBytesPerSecond } =
    flags;
  const { acceptanceRate, speedUp, abortRate, seed } = flags;
  // The default of the model length is what the longest request needs.
  const { now, ...scheduler } = resolveOptions({
    maxModelLen: workload.maxTotalTokens,
    ...schedulerOptions(values),
    ...(log !== null && { log }),
  });
  const model = {
    stepOverheadMs,
    prefillTokensPerSecond,
    weightBytes,
    kvBytesPerToken,
    memoryBytesPerSecond,
  };
  return { scheduler, model, acceptanceRate, speedUp, abortRate, seed };
}
