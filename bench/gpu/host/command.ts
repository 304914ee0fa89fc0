// Runs a program to its end or its limit.
import { type ChildProcess, spawn } from 'node:child_process';

/** How a program ended. */
export interface Ended {
  /** Exit code; null if it was killed or did not start. */
  status: number | null;
  /** The program ran past its limit and was killed, with everything that it had started. */
  timedOut: boolean;
  seconds: number;
  stdout: string;
  stderr: string;
}

export interface CommandOptions {
  /** Seconds that it may take. */
  limit: number;
  cwd?: string;
  env?: Record<string, string>;
}

/** Characters that are kept of each stream: those at the end, which say what went wrong. */
const KEPT = 1 << 22;
const alive = new Set<ChildProcess>();

/**
 * Runs a program to its end or to its limit. It gets a process group of its own, so that nothing it started outlives it.
 * Never rejects: a program that does not start has status null, and `stderr` says why.
 */
export function runCommand(
  program: string,
  args: readonly string[],
  options: CommandOptions,
): Promise<Ended> {
  const start = performance.now();
  return new Promise((resolve) => {
    const { cwd, env } = options;
    const child = spawn(program, args, {
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...env },
      ...(cwd === undefined ? {} : { cwd }),
    });
    alive.add(child);
    let stdout = '';
    let stderr = '';
    let timedOut = false;
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout = (stdout + text).slice(-KEPT);
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr = (stderr + text).slice(-KEPT);
    });
    const timer = setTimeout(() => {
      timedOut = true;
      killGroup(child);
    }, options.limit * 1000);
    const end = (status: number | null): void => {
      clearTimeout(timer);
      alive.delete(child);
      resolve({ status, timedOut, seconds: (performance.now() - start) / 1000, stdout, stderr });
    };
    child.on('error', (error) => {
      stderr += String(error);
      end(null);
    });
    child.on('close', end);
  });
}

/** Ends the commands that still run, when the program is interrupted. */
export function killAll(): void {
  for (const child of alive) killGroup(child);
}

function killGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch {
    // The process has just ended by itself.
  }
}

/** The last lines of a text, for a report. */
export function tail(text: string, lines = 30): string {
  return text.trimEnd().split('\n').slice(-lines).join('\n').slice(-4000);
}
