// The command line as a whole: adds the commands, reads the arguments, reports errors.
import { createRequire } from 'node:module';
import { Command, CommanderError, type Option } from 'commander';
import { BlockstepError, type ErrorCode } from '../base/errors.js';
import { packageRoot } from '../core/package-root.js';
import { ExitCode, type Invocation, type Io, type Job } from './terminal/io.js';

const { version } = createRequire(import.meta.url)(`${packageRoot()}/package.json`) as { version: string };

/**
 * Defines a command: its flags and its action. `onReady` receives its job once all input is read.
 */
type Define = (command: Command, invocation: Invocation, onReady: (job: Job) => void) => void;

/** A command of the program. Its modules are imported when the command line names it. */
interface NamedCommand {
  readonly name: string;
  readonly summary: string;
  readonly load: () => Promise<Define>;
}

const COMMANDS: readonly NamedCommand[] = [
  {
    name: 'serve',
    summary: 'serve an engine over HTTP with OpenAI’s API',
    load: async () => (await import('./serve/serve-command.js')).defineServeCommand,
  },
  {
    name: 'replay',
    summary: 'replay a trace of requests in virtual time',
    load: async () => (await import('./replay/replay-command.js')).defineReplayCommand,
  },
  {
    name: 'calibrate',
    summary: 'make a profile of a model on GPUs, from a data sheet or from measurements',
    load: async () => (await import('./plan/calibrate-command.js')).defineCalibrateCommand,
  },
  {
    name: 'plan',
    summary: 'compare options and find their highest load, by simulating a trace',
    load: async () => (await import('./plan/plan-command.js')).definePlanCommand,
  },
];

/**
 * Codes that mean a bad command line during the preparation. Once the job runs, the same codes mean
 * that it failed.
 */
const USAGE_ERRORS: readonly ErrorCode[] = [
  'ERR_BLOCKSTEP_BAD_ARG',
  'ERR_BLOCKSTEP_BAD_FILE',
  'ERR_BLOCKSTEP_BAD_LOG',
  'ERR_BLOCKSTEP_BAD_MODEL',
  'ERR_BLOCKSTEP_BAD_TRACE',
];

/**
 * Runs the command line `blockstep ...args`, writing to `io`, and returns the exit code
 * (`ExitCode`). Errors are reported, not thrown.
 */
export async function runProgram(args: readonly string[], io: Io): Promise<number> {
  let job: Job;
  try {
    job = await prepare(args, io);
  } catch (error) {
    report(error, io);
    const isUsage = error instanceof BlockstepError && USAGE_ERRORS.includes(error.code);
    return isUsage ? ExitCode.usage : ExitCode.failed;
  }
  try {
    return await job();
  } catch (error) {
    report(error, io);
    return ExitCode.failed;
  }
}

/**
 * Reads the command line and all input of the command (its whole trace, its whole log).
 * @returns the job, ready to run. If commander printed help or a complaint, the job only returns
 * the exit code
 */
async function prepare(args: readonly string[], io: Io): Promise<Job> {
  let code: number = ExitCode.ok;
  let job: Job = () => Promise.resolve(code);
  const program = new Command('blockstep')
    .description('The scheduling core of an LLM inference engine.')
    .version(version)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void io.stdout.write(text),
      writeErr: (text) => void io.stderr.write(text),
    });
  const onReady = (prepared: Job): void => {
    job = prepared;
  };
  for (const { name, summary, load } of COMMANDS) {
    const command = program.command(name).summary(summary).configureHelp({ optionTerm, optionDescription });
    if (args.includes(name)) (await load())(command, { io, args }, onReady);
  }
  try {
    await program.parseAsync(args, { from: 'user' });
  } catch (error) {
    // Commander has printed its help or complaint already.
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode !== 0) code = ExitCode.usage;
  }
  return job;
}

function report(error: unknown, { stderr }: Io): void {
  if (error instanceof BlockstepError) stderr.write(`${error.code}: ${error.message}\n`);
  else stderr.write(`${error instanceof Error ? error.stack : String(error)}\n`);
}

/**
 * The form of an option in `--help`. An option that is on by default has one line for both of its
 * forms (`--[no-]name`). An option with two names is shown by our name, not by vLLM's.
 */
function optionTerm(option: Option): string {
  if (option.long === '--help') return option.flags;
  const value = /[<[].*$/.exec(option.flags)?.[0] ?? '';
  const name = option.isBoolean() && option.defaultValue === true ? `--[no-]${option.name()}` : option.long;
  return `${name} ${value}`.trim();
}

/** The description of an option, with its choices and its default. */
function optionDescription({
  description,
  argChoices,
  defaultValue,
  defaultValueDescription,
}: Option): string {
  const notes: string[] = [];
  if (argChoices !== undefined) notes.push(argChoices.join(', '));
  if (defaultValue === true) notes.push('default: on');
  else if (defaultValue !== undefined && defaultValue !== false)
    notes.push(`default: ${defaultValueDescription ?? written(defaultValue)}`);
  return notes.length === 0 ? description : `${description} (${notes.join('; ')})`;
}

/** A default in the form that a user would type: numbers from 1e9 on with an exponent. */
function written(value: unknown): string {
  return typeof value === 'number' && value >= 1e9 ? value.toExponential().replace('+', '') : String(value);
}
