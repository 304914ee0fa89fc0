// `blockstep plan`: its flags, its progress, its end.
import { availableParallelism } from 'node:os';
import { basename } from 'node:path';
import { type Command, Option } from 'commander';
import { BlockstepError } from '../../base/errors.js';
import { ACCEPTANCE_RATE } from '../../executors/cost-model/cost-model.js';
import { readProfile } from '../../planner/model/profile-file.js';
import { checkPlan, type PlanInput, plan } from '../../planner/plan.js';
import { parseSweep } from '../../planner/sweep/knobs.js';
import { ROUTERS, type Router } from '../../planner/sweep/routing.js';
import { SEARCHES, type Search } from '../../planner/sweep/search.js';
import { parseSlo } from '../../planner/sweep/slo.js';
import { counted, duration } from '../../report/markup/figures.js';
import { OutputFile } from '../../report/output-file.js';
import { loadPlotLibrary, type PlotLibrary } from '../../report/page/library.js';
import { readTrace, TRACE_FORMATS, type TraceFormat } from '../../workload/trace.js';
import { flagAdder } from '../terminal/add-flag.js';
import { parse } from '../terminal/flag-values.js';
import { ExitCode, type Invocation, type Io, type Job } from '../terminal/io.js';
import { addSchedulerFlags, optionsWithRoom } from '../terminal/scheduler-flags.js';
import { planPage } from './page/plan-page.js';
import { PlanState } from './plan-state.js';
import { planTable } from './report/plan-table.js';

interface PlanFlags {
  profile: string;
  slo: string;
  sweep: string;
  search: Search;
  acceptanceRate: number;
  format?: TraceFormat;
  limit?: number;
  skipBad: boolean;
  engines: number;
  router: Router;
  maxEngines: number;
  finalists: number;
  threads: number;
  model: string;
  state?: string;
  report?: string;
  json: boolean;
}

const DESCRIPTION =
  'Compares options of an engine by simulating the requests of a trace, with the scheduler itself. Finds the options that meet a latency objective (SLO) best, the highest load at which they meet it, and the number of engines that the trace needs.';

const DETAILS = `
--slo has conditions: ttft (time to first token), tpot (time per output token) or
e2e; mean, p50, p90, p95 or p99; a bound in ms or s.
--sweep has knobs: max-num-seqs, max-num-batched-tokens, block-size, num-blocks,
long-prefill-token-threshold, pipeline-depth, num-speculative-tokens, and
enable-chunked-prefill=on|off, enable-prefix-caching=on|off, policy=fcfs|priority.
a..b doubles from a to b, a..b+c adds c each time, a|b is a list, k is 1024.

Options that --sweep does not name have the values of the flags under "Scheduler".
The profile gives the duration of each step: see npx blockstep calibrate --help.
The output names the share of steps that lie outside the profile's measurements.

With --state, an interrupted plan resumes where it stopped.

Exit codes: 0 done; 1 failed while it ran; 2 bad options or unusable file;
130 interrupted.

Example:
  npx blockstep plan trace.csv --profile p.json --slo 'ttft:p95<1s,tpot:p95<50ms' \\
    --sweep max-num-seqs=64..512,max-num-batched-tokens=1k..16k --report plan.html`;

/** Defines the `plan` command. `onReady` receives its job once all input is read. */
export function definePlanCommand(
  command: Command,
  { io, args }: Invocation,
  onReady: (job: Job) => void,
): void {
  command
    .description(DESCRIPTION)
    .argument('<TRACE>', 'trace of requests with arrival times, in a format that replay reads')
    .addHelpOption(new Option('-h, --help', 'show this').helpGroup('Output:'));
  const add = flagAdder(command);
  command.optionsGroup('Plan:');
  command.addOption(
    new Option(
      '--profile <file>',
      'profile: the durations of steps (see blockstep calibrate)',
    ).makeOptionMandatory(),
  );
  command.addOption(
    new Option(
      '--slo <conditions>',
      'latency objective, for example ttft:p95<1s,tpot:p95<50ms',
    ).makeOptionMandatory(),
  );
  add(
    '--sweep <knobs>',
    'options to compare, with their values',
    undefined,
    'max-num-seqs=64..512,max-num-batched-tokens=2k..16k',
  );
  command.addOption(
    new Option(
      '--search <name>',
      'grid: simulates every combination with all requests; halving: simulates all combinations with few requests, then the best with more',
    )
      .choices(SEARCHES)
      .default('grid'),
  );
  add(
    '--acceptance-rate <share>',
    'probability that a draft token is accepted',
    parse.share,
    ACCEPTANCE_RATE,
  );
  add(
    '--engines <n>',
    'number of equal engines that share the load while options are compared',
    parse.count,
    1,
  );
  command.addOption(
    new Option('--router <name>', 'how requests are spread over engines')
      .choices(ROUTERS)
      .default('round-robin'),
  );
  add(
    '--max-engines <n>',
    'find the number of engines that the trace needs with the best options, up to n; 0: skip this',
    parse.integer,
    0,
  );
  add('--finalists <n>', 'number of best combinations whose highest load is searched', parse.count, 3);
  add('--model <name>', 'name of the model in the printed vLLM command line', undefined, 'MODEL');
  add('--threads <n>', 'number of simulating threads', parse.count, availableParallelism());
  command.optionsGroup('Trace:');
  command.addOption(
    new Option('--format <name>', 'format of TRACE; by default read from its first line').choices(
      TRACE_FORMATS,
    ),
  );
  add('--limit <n>', 'read only the first n requests', parse.count);
  add('--skip-bad', 'skip malformed lines instead of refusing TRACE', undefined, false);
  command.optionsGroup('Output:');
  add('--json', 'print one JSON object instead of tables', undefined, false);
  add('--report <page>', 'also write an HTML page with charts: one file that needs no network');
  add('--state <file>', 'file that keeps finished simulations, for resuming');
  command.optionsGroup('Scheduler:');
  addSchedulerFlags(command);
  command.addHelpText('after', DETAILS);
  command.action(async (trace: string) => onReady(await prepare(trace, command, { io, args })));
}

/** A plan with all its input. */
interface Run extends Invocation {
  readonly input: PlanInput;
  readonly trace: string;
  readonly flags: PlanFlags;
  readonly page: { readonly file: OutputFile; readonly plots: PlotLibrary } | null;
  readonly state: PlanState | null;
}

async function prepare(trace: string, command: Command, { io, args }: Invocation): Promise<Job> {
  const values = command.opts<PlanFlags>();
  const { slo, sweep, search, acceptanceRate, engines, router, maxEngines, finalists, threads } = values;
  // Cheap input is checked first.
  const given = { slo: parseSlo(slo), sweep: parseSweep(sweep) };
  for (const name of given.sweep.keys()) refuseTwice(name, command);
  const profile = readProfile(values.profile);
  const { format, limit, skipBad } = values;
  const { workload, firstSkipped } = await readTrace(trace, { format, limit, skipBad, signal: io.signal });
  if (firstSkipped !== null) io.stderr.write(`skipped malformed lines, the first: ${firstSkipped}\n`);
  const scheduler = optionsWithRoom(command, profile.kvTokens);
  const fleet = { engines, router, maxEngines, finalists, threads };
  const input = { workload, profile, ...given, search, acceptanceRate, scheduler, ...fleet };
  checkPlan(input);
  let page: Run['page'] = null;
  const state = values.state === undefined ? null : PlanState.open(values.state);
  if (values.report !== undefined) page = { plots: loadPlotLibrary(), file: new OutputFile(values.report) };
  return () => run({ input, trace, flags: values, page, state, io, args });
}

function refuseTwice(name: string, command: Command): void {
  const option = command.options.find((each) => each.long === `--${name}`);
  if (option === undefined || command.getOptionValueSource(option.attributeName()) !== 'cli') return;
  throw new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', `--${name} cannot be used with --sweep, which varies it`);
}

/** Says what is done of each stage: ten lines are enough for any. */
function progressOf(stderr: Io['stderr']): NonNullable<PlanInput['onProgress']> {
  const said = new Map<string, number>();
  return (stage, done, of) => {
    const tenth = Math.floor((10 * done) / of);
    if (tenth <= (said.get(stage) ?? -1)) return;
    said.set(stage, tenth);
    stderr.write(`${stage}: ${done} of ${of}\n`);
  };
}

async function run({ input, trace, flags, page, state, io, args }: Run): Promise<number> {
  const begin = performance.now();
  try {
    const found = await plan({
      ...input,
      signal: io.signal,
      ...(state && { known: state.known }),
      onRun: (key, result) => state?.add(key, result),
      onProgress: progressOf(io.stderr),
    });
    const wallMs = performance.now() - begin;
    const told = { found, input, trace: basename(trace), model: flags.model };
    io.stdout.write(flags.json ? `${JSON.stringify(found)}\n` : planTable(told));
    if (page !== null) {
      page.file.write(new TextEncoder().encode(planPage({ ...told, args, date: new Date() }, page.plots)));
      page.file.commit();
      io.stderr.write(`written to ${page.file.path}\n`);
    }
    io.stderr.write(`${counted(found.steps, 'step')} of points in ${duration(wallMs)}\n`);
    return ExitCode.ok;
  } catch (error) {
    if (!io.signal.aborted) throw error;
    const kept = state === null ? 'with --state it would go on from here' : `${state.path} has what was done`;
    io.stderr.write(`interrupted: ${kept}\n`);
    return ExitCode.interrupted;
  } finally {
    state?.close();
    page?.file.discard();
  }
}
