// The number of threads for the machine.
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';

const MOST_THREADS = 8;
const CGROUPS = '/sys/fs/cgroup';

/** Returns a file as text; null: the file cannot be read. */
type ReadFile = (path: string) => string | null;

/**
 * Threads that suit this machine. After every operation the threads wait for each other by
 * spinning. A thread without a core stalls all others, so that a small step takes many times as
 * long. One processor is therefore left to Node and the rest of the machine.
 */
export function defaultThreads(): number {
  return threadsFor(availableParallelism(), processorQuota(readOrNull));
}

/**
 * @param processors that the process may run on
 * @param quota how many processors a container's limit allows at a time: 1.5 is possible; Infinity:
 * all
 */
export function threadsFor(processors: number, quota: number): number {
  return Math.max(1, Math.min(MOST_THREADS, Math.floor(Math.min(processors, quota)) - 1));
}

/**
 * The processor time that the cgroups of this process allow, in processors; Infinity: all. A
 * container with `--cpus 2` sees every processor of its machine. If it uses more than two, it is
 * stopped for most of each tenth of a second. Node 20 ignores this limit.
 */
export function processorQuota(read: ReadFile): number {
  const own = (read('/proc/self/cgroup') ?? '').split('\n');
  const inV2 = own.find((line) => line.startsWith('0::'))?.slice(3) ?? '/';
  const inV1 = own.find((line) => /^\d+:([^:]*,)?cpu(,|:)/.test(line))?.replace(/^[^:]*:[^:]*:/, '') ?? '/';
  const quotas = [
    ...upwards(inV2).map((path) => quotient((read(join(CGROUPS, path, 'cpu.max')) ?? 'max').split(' '))),
    ...upwards(inV1).map((path) =>
      quotient(
        ['quota', 'period'].map((name) => read(join(CGROUPS, 'cpu', path, `cpu.cfs_${name}_us`)) ?? ''),
      ),
    ),
  ];
  return Math.min(...quotas);
}

/** A path and all its parents: the limit of each of them holds. */
function upwards(path: string): string[] {
  const above = [path];
  while (above[above.length - 1] !== dirname(above[above.length - 1]))
    above.push(dirname(above[above.length - 1]));
  return above;
}

/** Microseconds of a period that may be used, as a fraction of the period. */
function quotient([quota, period = '']: readonly string[]): number {
  const [used, whole] = [Number.parseInt(quota, 10), Number.parseInt(period, 10)];
  return used > 0 && whole > 0 ? used / whole : Number.POSITIVE_INFINITY;
}

function readOrNull(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}
