import { createRequire } from 'node:module';
import { Command, CommanderError } from 'commander';
import { BlockstepError, type ErrorCode } from '../base/errors.js';
import { packageRoot } from '../core/package-root.js';
import { addReplayCommand } from './replay/replay-command.js';
import { addServeCommand } from './serve/serve-command.js';
import { ExitCode, type Io, type Job } from './terminal/io.js';

const { version } = createRequire(import.meta.url)(`${packageRoot()}/package.json`) as { version: string };

/** Codes that mean a bad command line while the command is prepared. Once the job runs, the same codes mean that it failed. */
const USAGE_ERRORS: readonly ErrorCode[] = [
  'ERR_BLOCKSTEP_BAD_ARG',
  'ERR_BLOCKSTEP_BAD_FILE',
  'ERR_BLOCKSTEP_BAD_LOG',
  'ERR_BLOCKSTEP_BAD_MODEL',
  'ERR_BLOCKSTEP_BAD_TRACE',
];

/**
 * Runs the command line `blockstep ...args`, writing to `io`, and returns the exit code (`ExitCode`). Errors are
 * reported, not thrown.
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
 * Reads the command line and everything that the command needs (its whole trace, its whole log).
 * @returns the job, ready to run; where commander printed help or a complaint, a job that only returns the exit code
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
  addServeCommand(program, io, onReady);
  addReplayCommand(program, { io, args }, onReady);
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
