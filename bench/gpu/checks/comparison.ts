// Random steps: the GPU's state equals the host's.
import { type Ended, runCommand, tail } from '../host/command.js';
import type { Outcome } from '../record/record.js';
import { words } from './native-build.js';

type Authority = 'host' | 'device';

/** The output of cuda_test, as far as it is read here. */
interface Printed {
  equal: boolean;
  /** One for each configuration. Where no authority is named, the host decided. */
  runs: { name: string; authority?: Authority; steps: number }[];
}

/**
 * (a) CUDA against host: random steps over every configuration, ids, rolling digests and digests of the whole state
 * compared. One run of the program compares every authority that it knows.
 */
export function runComparison(program: string, steps: number, limit: number): Promise<Ended> {
  return runCommand(program, ['--steps', String(steps)], { limit });
}

/**
 * The result of that run for one authority: passed only if it made as many steps as were asked for,
 * and all were equal.
 */
export function judgeComparison(ended: Ended, authority: Authority, steps: number): Outcome {
  const { status, timedOut, seconds, stdout } = ended;
  if (timedOut) return { verdict: 'unfinished', seconds, detail: words(ended) };
  const printed = status === 0 ? parse(stdout) : null;
  if (printed === null || !printed.equal) return { verdict: 'failed', seconds, detail: words(ended) };
  const runs = printed.runs.filter((run) => (run.authority ?? 'host') === authority);
  if (runs.length === 0)
    return { verdict: 'unavailable', seconds: 0, detail: 'the program compares no such steps' };
  const made = runs.reduce((sum, run) => sum + run.steps, 0);
  return { verdict: made >= steps ? 'passed' : 'failed', seconds, detail: { steps: made, runs } };
}

/** The other tests without Node: they say with their exit code alone whether all was right. */
export async function runNative(program: string, args: readonly string[], limit: number): Promise<Outcome> {
  const ended = await runCommand(program, args, { limit });
  const { status, timedOut, seconds, stdout } = ended;
  if (status === 0) return { verdict: 'passed', seconds, detail: tail(stdout) };
  return { verdict: timedOut ? 'unfinished' : 'failed', seconds, detail: words(ended) };
}

function parse(stdout: string): Printed | null {
  try {
    return JSON.parse(stdout) as Printed;
  } catch {
    return null;
  }
}
