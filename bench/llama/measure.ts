import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import type { Figures, Run } from './run.js';

/** Makes a run in a process of its own. @throws Error with the output of the process */
export function measure(run: Run): Figures {
  const program = join(import.meta.dirname, 'run.js');
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, JSON.stringify(run)], {
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`${run.contender}: ${stderr}`);
  return JSON.parse(stdout) as Figures;
}

export function median(numbers: readonly number[]): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
