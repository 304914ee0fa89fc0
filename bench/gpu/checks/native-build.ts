// Builds the native test program and the native benchmark on this machine.
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { type Ended, runCommand, tail } from '../host/command.js';
import { findProgram } from '../host/host.js';
import { TREE } from '../host/tree.js';
import type { Outcome } from '../record/record.js';

/** The native programs, built on this machine. */
export interface NativePrograms {
  /** CUDA against host (native/test/gpu/cuda_test.cc). */
  test: string;
  /** The tables of a step as a captured graph reads them (native/test/gpu/tables_test.cc). */
  tables: string;
  /** The figures (native/test/gpu/bench/bench.cc). */
  bench: string;
  /** How the back end lives beside others (native/test/gpu/first_checks.cc). */
  first: string;
}

/**
 * Builds the native test program and the native benchmark with CMake. The target is the GPU of this
 * host alone, or the emulated GPU, which needs no CUDA compiler.
 * @param targets the programs that are needed
 * @param architecture as CMake names it, e.g. 90; null: the emulated GPU
 */
export async function buildNative(
  architecture: string | null,
  targets: readonly string[],
  limit: number,
): Promise<Outcome & { programs: NativePrograms | null }> {
  const folder = join(TREE, 'native', architecture === null ? 'build-gpu-emulated' : 'build-gpu');
  const cmake = findProgram('cmake');
  if (cmake === null) return { verdict: 'failed', seconds: 0, detail: 'there is no cmake', programs: null };
  const configure = configuration(architecture, folder);
  const build = ['--build', folder, '--parallel', String(availableParallelism()), '--target', ...targets];
  let seconds = 0;
  for (const args of [configure, build]) {
    const ended = await runCommand(cmake, args, { limit: Math.max(1, limit - seconds) });
    seconds += ended.seconds;
    if (ended.status !== 0) {
      return {
        verdict: ended.timedOut ? 'unfinished' : 'failed',
        seconds,
        detail: words(ended),
        programs: null,
      };
    }
  }
  const detail = architecture === null ? 'for the emulated GPU' : `for compute capability ${architecture}`;
  const program = (name: string): string => join(folder, name);
  const programs = {
    test: program('cuda_test'),
    tables: program('tables_test'),
    bench: program('cuda_bench'),
    first: program('first_checks'),
  };
  return { verdict: 'passed', seconds, detail, programs };
}

/** Arguments of CMake that configure the programs. */
export function configuration(architecture: string | null, folder: string): string[] {
  const generator = findProgram('ninja') === null ? [] : ['-G', 'Ninja'];
  const kind =
    architecture === null ? ['-DBLOCKSTEP_EMULATED=ON'] : [`-DCMAKE_CUDA_ARCHITECTURES=${architecture}`];
  // A new warning of a compiler that nobody has tried must not cost the whole run.
  const lenient = '-DBLOCKSTEP_WERROR=OFF';
  return ['-S', join(TREE, 'native', 'test', 'gpu'), '-B', folder, ...generator, ...kind, lenient];
}

/** The last words of a program: its errors, or else its output. */
export function words({ status, timedOut, stdout, stderr }: Ended): string {
  const how = timedOut ? 'killed at its limit' : `exit code ${status}`;
  return [how, tail(stdout, 12), tail(stderr)].filter(Boolean).join('\n');
}
