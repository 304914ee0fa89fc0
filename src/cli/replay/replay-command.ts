// The command `blockstep replay`: reads flags and workload, runs, reports.
import { type Command, Option } from 'commander';
import { costOf } from '../../executors/cost-model/cost-model.js';
import { duration, grouped } from '../../report/markup/figures.js';
import type { LogSink } from '../../scheduler/options/options.js';
import { resolveOptions } from '../../scheduler/options/resolve-options.js';
import type { Workload } from '../../workload/workload.js';
import { ExitCode, type Invocation, type Job } from '../terminal/io.js';
import { namedCost } from '../terminal/named-cost.js';
import { addSchedulerFlags, schedulerOptions } from '../terminal/scheduler-flags.js';
import { checkFlags } from './misplaced-flags.js';
import { replayPage } from './page/replay-page.js';
import { Progress } from './progress.js';
import { addCostModelFlags, addReplayFlags, type ReplayFlags } from './replay-flags.js';
import { ReplayOutputs } from './replay-outputs.js';
import { makePrinter, type ReplayPrinter } from './replay-printer.js';
import { makeReport, type Source } from './report/report.js';
import { Replay, type ReplayOptions } from './run/replay.js';
import { ReplaySeries } from './run/replay-series.js';
import { addServerFlags } from './server-flags.js';
import { loadWorkload } from './workload-source.js';

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

With --url the requests go to a server with OpenAI's API, in real time, and
times are those that a client sees. The scheduler and the cost model have no
part in that. Exit code 1 then also means that requests failed.

Examples (in a checkout, node dist/cli/main.js in place of npx blockstep):
  npx blockstep replay --report page.html      generated requests, and a page
  npx blockstep replay trace.jsonl             a trace
  npx blockstep replay trace.csv --speed-up 4  another, at four times its load
  npx blockstep replay --url http://127.0.0.1:8000 --requests 200`;

/**
 * Defines the `replay` command. `onReady` receives the replay once the workload is read and the
 * scheduler made.
 */
export function defineReplayCommand(
  command: Command,
  invocation: Invocation,
  onReady: (job: Job) => void,
): void {
  command
    .description(DESCRIPTION)
    .argument('[FILE]', 'trace to replay; without one, requests are generated')
    .addHelpOption(new Option('-h, --help', 'show this').helpGroup('Output:'));
  addReplayFlags(command);
  addServerFlags(command);
  command.optionsGroup('Scheduler:');
  addSchedulerFlags(command);
  command.optionsGroup('Cost model:');
  addCostModelFlags(command);
  command.addHelpText('after', DETAILS);
  command.action(async (file: string | undefined) => {
    checkFlags(file, command);
    const { log, json, url } = command.opts<ReplayFlags>();
    // Each kind of replay imports only its own modules.
    if (log !== undefined) {
      const { prepareLog } = await import('../log/log-command.js');
      onReady(prepareLog(log, json, invocation.io));
    } else if (url !== undefined) {
      const { prepareHttpReplay } = await import('./http-command.js');
      onReady(await prepareHttpReplay(file, { ...command.opts(), url }, invocation));
    } else onReady(await prepareReplay(file, command.opts(), invocation));
  });
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
    const loaded = await loadWorkload(file, flags, io);
    if (loaded === null) {
      outputs.discard();
      return () => Promise.resolve(ExitCode.interrupted);
    }
    const { workload, source } = loaded;
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
    const complete = await replay.run(io.signal, () =>
      bar?.update(replay.measurements.numEnded, inWords(replay)),
    );
    const wallMs = performance.now() - start;
    bar?.stop();
    // A scheduler with a broken state must print no figures.
    replay.scheduler.verify();
    series.end(replay.nowMs);
    const report = makeReport(replay, series, source, options, !complete, wallMs);
    // The disposal of the scheduler writes its last commands into the log.
    replay.dispose();
    printer.report(report);
    const { measurements } = replay;
    outputs.writePage((made, plots) => replayPage({ report, measurements, series, args, ...made }, plots));
    for (const path of outputs.commit()) io.stderr.write(`written to ${path}\n`);
    printer.end(report);
    return complete ? ExitCode.ok : ExitCode.interrupted;
  } finally {
    bar?.stop();
    replay.dispose();
    outputs.discard();
  }
}

/** The progress of a replay, for the progress bar. */
function inWords({ measurements, nowMs }: Replay): string {
  return `${grouped(measurements.steps)} steps | ${duration(nowMs)} virtual`;
}

function replayOptions(
  flags: ReplayFlags,
  values: Record<string, unknown>,
  workload: Workload,
  log: LogSink | null,
): ReplayOptions {
  const { acceptanceRate, speedUp, abortRate, seed } = flags;
  // The default model length is the length of the longest request.
  const { now, ...scheduler } = resolveOptions({
    maxModelLen: workload.maxTotalTokens,
    ...schedulerOptions(values),
    ...(log !== null && { log }),
  });
  return { scheduler, ...costOfFlags(flags), acceptanceRate, speedUp, abortRate, seed };
}

/** The cost of a step by the flags: a profile, or the figures of the cost model. */
function costOfFlags(flags: ReplayFlags): Pick<ReplayOptions, 'cost' | 'model'> {
  if (flags.profile !== undefined) {
    const { name, cost } = namedCost(flags.profile);
    return { cost, model: name };
  }
  const { stepOverheadMs, prefillTokensPerSecond, weightBytes, kvBytesPerToken, memoryBytesPerSecond } =
    flags;
  const model = {
    stepOverheadMs,
    prefillTokensPerSecond,
    weightBytes,
    kvBytesPerToken,
    memoryBytesPerSecond,
  };
  return { cost: costOf(model), model };
}
