// `blockstep calibrate`: its flags, its input, its output.
import { statSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { type Command, Option } from 'commander';
import { BlockstepError } from '../../base/errors.js';
import { type Calibration, calibrate, checkCalibrate } from '../../planner/calibrate.js';
import { differenceInWords } from '../../planner/fit/fit-steps.js';
import { GPUS } from '../../planner/model/gpus.js';
import { readLlmServingSim } from '../../planner/model/llmservingsim.js';
import { type FitErrors, type Profile, rooflineProfile } from '../../planner/model/profile.js';
import { readBy, readJson } from '../../planner/model/profile-file.js';
import { counted, decimal } from '../../report/markup/figures.js';
import { OutputFile } from '../../report/output-file.js';
import type { SchedulerOptions } from '../../scheduler/options/options.js';
import { readTrace } from '../../workload/trace.js';
import type { Workload } from '../../workload/workload.js';
import { flagAdder } from '../terminal/add-flag.js';
import { parse } from '../terminal/flag-values.js';
import { ExitCode, type Invocation, type Io, type Job } from '../terminal/io.js';
import { addSchedulerFlags, optionsWithRoom } from '../terminal/scheduler-flags.js';

interface CalibrateFlags {
  model: string;
  gpu: string;
  gpus: number;
  requests?: string;
  tables?: string;
  skew: number;
  share: number;
  starts: number;
  vllm?: string;
  output: string;
  json: boolean;
}

const DESCRIPTION =
  'Makes a profile of a model on GPUs, for plan, replay and serve: from the GPU’s data sheet alone, or fitted to measurements of a server.';

const DETAILS = `
FILE has the measurements of a server, in one of these forms:
  - the log of a vLLM server that was started with
    --enable-logging-iteration-details and --no-async-scheduling. --requests
    names the trace that was sent. The same requests are scheduled again, and
    the first step that differs is reported;
  - the results of vllm bench serve --save-result --save-detailed, of GuideLLM
    (JSON), or of AIPerf (profile_export.jsonl), with the times of each request.
Without FILE the profile is a roofline: calculated from the model and the data
sheet, with errors of tens of percent.

Give the scheduler the options that the server had. vLLM's log prints the number
of blocks (--num-blocks) at its start.

The first part of FILE is fitted. The rest measures the error of the fit.

Exit codes: 0 done; 1 failed while it ran; 2 bad options or unusable file;
3 a step of the log differs, and the profile uses only earlier steps;
130 interrupted.

Examples:
  npx blockstep calibrate --model config.json --gpu h100 -o roofline.json
  npx blockstep calibrate bench.json --model config.json --gpu h100 \\
    --max-num-seqs 256 --num-blocks 27000 --pipeline-depth 2 -o profile.json`;

/** Defines the `calibrate` command. `onReady` receives its job once all input is read. */
export function defineCalibrateCommand(
  command: Command,
  { io }: Invocation,
  onReady: (job: Job) => void,
): void {
  command
    .description(DESCRIPTION)
    .argument('[FILE]', 'measurements of a server')
    .addHelpOption(new Option('-h, --help', 'show this').helpGroup('Profile:'));
  const add = flagAdder(command);
  command.optionsGroup('Profile:');
  command.addOption(
    new Option('--model <file>', 'config.json of the model, in Hugging Face’s format').makeOptionMandatory(),
  );
  command.addOption(new Option('--gpu <name>', 'the GPU').choices(Object.keys(GPUS)).makeOptionMandatory());
  add('--gpus <n>', 'GPUs that share the model by tensor parallelism', parse.count, 1);
  add('--requests <trace>', 'trace of the requests of an iteration log, in a format that replay reads');
  add('--tables <folder>', 'instead of FILE: tables of LLMServingSim’s profiler for this model and GPU');
  add('--skew <share>', 'with --tables: alpha_default of their meta.yaml', parse.share, 0);
  add('--share <share>', 'share of FILE, from its beginning, that is fitted', parse.share, 0.5);
  add('--starts <n>', 'starts of the optimiser', parse.count, 2);
  add('--vllm <version>', 'version of the measured vLLM, for the record in the profile');
  command.addOption(new Option('-o, --output <file>', 'file for the profile').makeOptionMandatory());
  add('--json', 'print one JSON object', undefined, false);
  command.optionsGroup('Scheduler:');
  addSchedulerFlags(command);
  command.addHelpText('after', DETAILS);
  command.action(async (file: string | undefined) => {
    onReady(await prepare(file, command, io));
  });
}

async function prepare(file: string | undefined, command: Command, io: Io): Promise<Job> {
  const values = command.opts<CalibrateFlags>();
  const { model, gpu, gpus, tables, requests, skew } = values;
  if (tables !== undefined && file !== undefined)
    throw new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', '--tables cannot be used with a FILE');
  if (requests !== undefined && file === undefined)
    throw new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', '--requests needs a FILE');
  const config = readJson(model);
  const prior = rooflineProfile(config, modelName(config, model), GPUS[gpu], gpus);
  const output = new OutputFile(values.output);
  try {
    if (file === undefined) {
      const profile = tables === undefined ? prior : tableProfile(prior, config, tables, skew, io);
      return () => Promise.resolve(write(output, profile, io));
    }
    const text = readBy(String, file);
    let workload: Workload | null = null;
    if (requests !== undefined) ({ workload } = await readTrace(requests, { signal: io.signal }));
    const scheduler = optionsWithRoom(command, prior.kvTokens);
    const { share, starts } = values;
    checkCalibrate({ prior, text, name: basename(file), requests: workload, scheduler, share, starts });
    return () => run({ prior, text, file, workload, scheduler, values, output, io });
  } catch (error) {
    output.discard();
    throw error;
  }
}

interface Run {
  prior: Profile;
  text: string;
  file: string;
  workload: Workload | null;
  scheduler: SchedulerOptions;
  values: CalibrateFlags;
  output: OutputFile;
  io: Io;
}

async function run({ prior, text, file, workload, scheduler, values, output, io }: Run): Promise<number> {
  const { share, starts, vllm = null, json } = values;
  try {
    const calibration = await calibrate({
      prior,
      text,
      name: basename(file),
      requests: workload,
      scheduler,
      share,
      starts,
      vllm,
      date: statSync(file).mtime.toISOString(),
      signal: io.signal,
      onProgress: (done, of, loss) => void io.stderr.write(`fit ${done} of ${of}: loss ${loss.toFixed(4)}\n`),
    });
    if (json) {
      const { profile, ...facts } = calibration;
      io.stdout.write(`${JSON.stringify({ ...facts, profile })}\n`);
    } else io.stdout.write(words(calibration));
    const code = write(output, calibration.profile, io);
    return calibration.steps?.difference == null ? code : ExitCode.differs;
  } catch (error) {
    if (!io.signal.aborted) throw error;
    io.stderr.write('interrupted: no profile was written\n');
    return ExitCode.interrupted;
  } finally {
    output.discard();
  }
}

function write(output: OutputFile, profile: Profile, { stderr }: Io): number {
  output.write(new TextEncoder().encode(`${JSON.stringify(profile, null, 1)}\n`));
  output.commit();
  stderr.write(`written to ${output.path}\n`);
  return ExitCode.ok;
}

/** The result of a fit, for people. */
function words({ profile, priorErrors, form, simulations, steps, left }: Calibration): string {
  const { errors, undetermined, ensemble } = profile.fit;
  const lines = [`${profile.name}, fitted to ${form} by ${counted(simulations, 'trial')}`];
  if (left > 0) lines.push(`${counted(left, 'request')} without tokens left out`);
  if (steps !== null) {
    const { equalSteps, difference } = steps;
    lines.push(`${equalSteps} of ${counted(steps.steps, 'step')} are decided alike`);
    if (difference !== null) lines.push(`DIFFERS: ${differenceInWords(difference)}`);
  }
  lines.push(`errors on the ${errors.heldOut} that were not fitted (medians; before the fit in brackets):`);
  const names: [keyof FitErrors, string][] = [
    ['stepMs', 'time of a step'],
    ['ttft', 'time to first token'],
    ['tpot', 'time per output token'],
    ['e2e', 'end-to-end latency'],
    ['p90', '90th percentile of the latter'],
  ];
  const percent = (share: number | null): string => (share === null ? '-' : `${decimal(100 * share, 2)} %`);
  for (const [name, what] of names) {
    if (errors[name] !== null)
      lines.push(`  ${what}: ${percent(errors[name])} (${percent(priorErrors[name])})`);
  }
  lines.push(
    undetermined.length === 0
      ? 'the data determined every coefficient'
      : `NOT DETERMINED by the data, and left about as assumed: ${undetermined.join(', ')}`,
  );
  lines.push(`error band: ${counted(ensemble.length, 'other fit')} within 5 % of the best`);
  return `${lines.join('\n')}\n`;
}

function tableProfile(
  prior: Profile,
  config: unknown,
  folder: string,
  skew: number,
  { stderr }: Io,
): Profile {
  const layers = (config as Record<string, unknown>)['num_hidden_layers'] as number;
  const { profile, evened, points } = readLlmServingSim(folder, layers, skew);
  stderr.write(`${counted(points, 'point')} read, ${evened} of them evened out\n`);
  const { name, kvTokens, provenance } = prior;
  return { ...profile, name, kvTokens, provenance: { ...provenance, source: profile.provenance.source } };
}

function modelName(config: unknown, path: string): string {
  const named = (config as Record<string, unknown> | null)?.['_name_or_path'];
  if (typeof named === 'string' && named !== '') return named;
  return basename(dirname(path)) === '.' ? basename(path) : basename(dirname(path));
}
