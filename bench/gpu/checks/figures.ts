// The native benchmark, and the cost of a step in Node.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Results, readResults } from '../../rows/results.js';
import { runCommand } from '../host/command.js';
import { TREE } from '../host/tree.js';
import { type Figure, readFigures } from '../record/figure.js';
import type { Outcome } from '../record/record.js';
import { words } from './native-build.js';

/** (d) The native benchmark. Its output before a failure is kept. */
export async function measureFigures(
  program: string,
  options: readonly string[],
  limit: number,
): Promise<Outcome & { figures: Figure[] }> {
  const ended = await runCommand(program, options, { limit });
  const { status, timedOut, seconds, stdout } = ended;
  const figures = readFigures(stdout);
  if (status === 0 && figures.length > 0) {
    return { verdict: 'passed', seconds, detail: `${figures.length} figures`, figures };
  }
  return { verdict: timedOut ? 'unfinished' : 'failed', seconds, detail: words(ended), figures };
}

/** (d) What a step costs its caller in Node, mirrored on the GPU and not: the group `cuda` of the benchmark of the host. */
export async function measureThroughNode(
  emulatedAddon: string | null,
  limit: number,
): Promise<Outcome & { figures: Figure[] }> {
  const folder = mkdtempSync(join(tmpdir(), 'blockstep-bench-'));
  try {
    const file = join(folder, 'result.json');
    const main = join(TREE, 'build', 'bench', 'bench', 'main.js');
    const quick = emulatedAddon === null ? [] : ['--quick'];
    const args = ['--expose-gc', main, '--only', 'cuda', '--out', file, ...quick];
    const env = emulatedAddon === null ? {} : { BLOCKSTEP_ADDON: emulatedAddon };
    const ended = await runCommand(process.execPath, args, { limit, env });
    const { status, timedOut, seconds } = ended;
    const figures = status === 0 ? figuresOf(readResults(file)) : [];
    if (figures.length > 0)
      return { verdict: 'passed', seconds, detail: `${figures.length} figures`, figures };
    return { verdict: timedOut ? 'unfinished' : 'failed', seconds, detail: words(ended), figures };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function figuresOf({ rows }: Results): Figure[] {
  return rows.flatMap(({ group, name, latency }) => {
    if (group !== 'cuda' || latency === undefined) return [];
    const { p50, p99, samples } = latency;
    return [{ name: `in Node, ${name}`, authority: null, beside: 'idle', p50Us: p50, p99Us: p99, samples }];
  });
}
