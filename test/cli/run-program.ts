// Runs the command line in this process and collects its output.
import { PassThrough } from 'node:stream';
import { runProgram } from '../../src/cli/program.js';
import type { Report } from '../../src/cli/replay/report/report.js';

/** The outcome of a command. */
export interface Outcome {
  code: number;
  stdout: string;
  stderr: string;
}

/**
 * Starts a command line in this process. `ended` has its exit code, and `said` its output so far.
 */
export function start(args: readonly string[], signal: AbortSignal) {
  const said = { stdout: '', stderr: '', code: null as number | null };
  const stderr = new PassThrough().on('data', (bytes) => {
    said.stderr += bytes;
  });
  const stdout = { write: (text: string) => (said.stdout += text) };
  const ended = runProgram(args, { stdout, stderr, again: 'npx blockstep replay', signal }).then((code) => {
    said.code = code;
    return code;
  });
  return { said, ended };
}

/** Runs a command line in this process. `isTTY` makes stderr a terminal. */
export async function run(
  args: readonly string[],
  { signal = new AbortController().signal, isTTY = false } = {},
): Promise<Outcome> {
  let stdout = '';
  let stderr = '';
  const stream = Object.assign(new PassThrough(), { isTTY, columns: 100 });
  stream.on('data', (bytes) => {
    stderr += bytes;
  });
  const out = { write: (text: string) => (stdout += text) };
  const code = await runProgram(args, { stdout: out, stderr: stream, again: 'npx blockstep replay', signal });
  return { code, stdout, stderr };
}

/** Runs `replay --json` with these arguments to its end and gives its report. */
export async function replay(...args: string[]): Promise<Report> {
  const { code, stdout, stderr } = await run(['replay', '--json', ...args]);
  if (code !== 0) throw new Error(`exit code ${code}: ${stderr}`);
  return JSON.parse(stdout) as Report;
}
