import { accessSync, constants } from 'node:fs';
import { availableParallelism, cpus, release, totalmem } from 'node:os';
import { delimiter, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { runCommand, tail } from './command.js';
import { TREE } from './tree.js';

/** The GPU that was found. */
export interface Gpu {
  name: string;
  /** Null where only the addon could be asked. */
  driver: string | null;
  memoryMiB: number | null;
  /** As in 9.0. */
  computeCapability: string;
}

/** The machine that the checks ran on. */
export interface Host {
  gpu: Gpu | null;
  /** Why there is no GPU, in the words of the program that was asked. */
  noGpu: string | null;
  /** The CUDA compiler and the runtime that comes with it, as in 13.0; null without one. */
  cuda: string | null;
  cpu: string;
  cores: number;
  memoryGiB: number;
  kernel: string;
}

/** Whether the package can use CUDA here: the GPU by name, or what is missing. */
export interface Probe {
  usable: boolean;
  reason: string;
  seconds: number;
}

/** Tools that are not always in PATH. */
const ELSEWHERE = [
  '/usr/local/cuda/bin',
  '/usr/local/cuda/compute-sanitizer',
  '/usr/local/nvidia/bin',
  '/opt/cuda/bin',
];

/** The first program of this name, in PATH or where toolkits put it; null if there is none. */
export function findProgram(name: string, path = process.env['PATH'] ?? ''): string | null {
  for (const folder of [...path.split(delimiter).filter(Boolean), ...ELSEWHERE]) {
    const file = join(folder, name);
    try {
      accessSync(file, constants.X_OK);
      return file;
    } catch {
      // Not here.
    }
  }
  return null;
}

/** Looks at the machine. A program that does not answer within ten seconds counts as absent. */
export async function readHost(): Promise<Host> {
  const { gpu, noGpu } = await readGpu();
  return {
    gpu,
    noGpu,
    cuda: await readCuda(),
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: availableParallelism(),
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
  };
}

/** Asks the driver's tool for the GPU, and where there is none or it does not answer, the addon. */
async function readGpu(): Promise<Pick<Host, 'gpu' | 'noGpu'>> {
  const program = findProgram('nvidia-smi');
  const why: string[] = [];
  if (program === null) why.push('there is no nvidia-smi');
  else {
    const query = [
      '--query-gpu=name,driver_version,memory.total,compute_cap',
      '--format=csv,noheader,nounits',
    ];
    const { status, stdout, stderr } = await runCommand(program, query, { limit: 10 });
    const gpu = status === 0 ? parseGpu(stdout) : null;
    if (gpu !== null) return { gpu, noGpu: null };
    why.push(`nvidia-smi: ${(stdout + stderr).trim()}`);
  }
  const { usable, reason } = await probeInProcess();
  if (!usable) return { gpu: null, noGpu: [...why, `the addon: ${reason}`].join('; ') };
  return { gpu: gpuOfReason(reason), noGpu: null };
}

/**
 * The GPU in the addon's report of a usable GPU: its name, its compute capability, and further
 * findings.
 */
export function gpuOfReason(reason: string): Gpu {
  const [, name = reason, computeCapability = ''] = /^(.*), compute capability (\d+\.\d+)/.exec(reason) ?? [];
  return { name, driver: null, memoryMiB: null, computeCapability };
}

/**
 * Tries CUDA as the package does, in a process of its own. The context that this makes on the GPU
 * must be gone before anything is measured there.
 */
export async function probeInProcess(env: Record<string, string> = {}): Promise<Probe> {
  const index = pathToFileURL(join(TREE, 'dist', 'index.js')).href;
  const program = `import(${JSON.stringify(index)}).then((it) => console.log(JSON.stringify(it.probeBackends()[1])))`;
  const { status, stdout, stderr, seconds } = await runCommand(process.execPath, ['-e', program], {
    limit: 60,
    env,
  });
  if (status !== 0) return { usable: false, reason: tail(stderr), seconds };
  const { usable, reason } = JSON.parse(stdout) as Omit<Probe, 'seconds'>;
  return { usable, reason, seconds };
}

/** The first GPU in the output of nvidia-smi: name, driver, MiB, compute capability. */
export function parseGpu(csv: string): Gpu | null {
  const [name, driver, memory, computeCapability] = csv
    .split('\n')[0]
    .split(',')
    .map((cell) => cell.trim());
  if (!name || !driver || !/^\d+\.\d+$/.test(computeCapability ?? '')) return null;
  return { name, driver, memoryMiB: Number(memory), computeCapability };
}

/**
 * The present clocks of the GPU, in the words of the driver's tool; null where it does not print
 * them.
 */
export async function readClocks(): Promise<string | null> {
  const program = findProgram('nvidia-smi');
  if (program === null) return null;
  const query = ['--query-gpu=clocks.sm,clocks.mem,clocks.max.sm,temperature.gpu,power.draw', '--format=csv'];
  const { status, stdout } = await runCommand(program, query, { limit: 10 });
  return status === 0 ? tail(stdout, 2) : null;
}

async function readCuda(): Promise<string | null> {
  const program = findProgram('nvcc');
  if (program === null) return null;
  const { stdout } = await runCommand(program, ['--version'], { limit: 10 });
  return /release (\d+\.\d+)/.exec(stdout)?.[1] ?? null;
}
