import { execFileSync, type StdioOptions } from 'node:child_process';
import { existsSync } from 'node:fs';
import { availableParallelism, cpus, loadavg, totalmem } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The machine, the versions and the commit that a result was measured with. */
export interface Machine {
  cpu: string;
  cores: number;
  memoryGiB: number;
  /** Load averages over 1, 5 and 15 minutes when the run began. On a quiet machine the first is near 0. */
  load: readonly number[];
  platform: string;
  node: string;
  v8: string;
  /** Full commit, or null outside a git checkout. */
  commit: string | null;
  /** Whether the sources, the native code or the benchmark differ from the commit; null outside a git checkout. */
  dirty: boolean | null;
  /** ISO 8601, UTC. */
  date: string;
}

/** The repository that the compiled benchmark belongs to. */
export const REPOSITORY = repositoryRoot();

export function readMachine(): Machine {
  const status = git('status', '--porcelain', '--', 'src', 'native', 'bench/*.ts', 'package.json');
  return {
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: availableParallelism(),
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    load: loadavg().map((value) => Math.round(100 * value) / 100),
    platform: `${process.platform}-${process.arch}`,
    node: process.version,
    v8: process.versions.v8,
    commit: git('rev-parse', 'HEAD'),
    dirty: status === null ? null : status.length > 0,
    date: new Date().toISOString(),
  };
}

/** The machine in one line, for people. */
export function describeMachine(machine: Machine): string {
  const { cpu, cores, node, load, date } = machine;
  const commit = machine.commit === null ? 'no commit' : shortCommit(machine);
  const dirty = machine.dirty ? ' with changes' : '';
  return `${cpu}, ${cores} cores, node ${node}, load ${load.join(' ')}, ${commit}${dirty}, ${date}`;
}

/** The machine as a part of a file name: letters, digits and hyphens. */
export function machineSlug({ cpu, cores }: Machine): string {
  return `${cpu}-${cores}c`
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '');
}

export function shortCommit({ commit }: Machine): string {
  return commit?.slice(0, 8) ?? 'nocommit';
}

function git(...args: string[]): string | null {
  try {
    const stdio: StdioOptions = ['ignore', 'pipe', 'ignore'];
    return execFileSync('git', args, { cwd: REPOSITORY, encoding: 'utf8', stdio }).trim();
  } catch {
    return null;
  }
}

function repositoryRoot(): string {
  let dir = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(dir, 'package.json')) && dirname(dir) !== dir) dir = dirname(dir);
  return dir;
}
