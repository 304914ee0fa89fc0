// The compilers that a build needs, and the messages about missing ones. Plain JavaScript without dependencies, because it runs before
// anything is built or installed.
import { spawnSync } from 'node:child_process';

/** Whether a program can be started. */
export function has(program) {
  return spawnSync(program, ['--version'], { stdio: 'ignore' }).error === undefined;
}

export function hasCompiler() {
  if (process.env.CXX) return has(process.env.CXX.split(' ')[0]);
  // MSVC is found by CMake and node-gyp alone.
  return process.platform === 'win32' || has('c++') || has('g++') || has('clang++');
}

/** Runs a program with its output shown, and returns whether it succeeded. */
export function run(program, args, options = {}) {
  console.error(`> ${[program, ...args].join(' ')}`);
  const shell = process.platform === 'win32';
  const { status, error } = spawnSync(program, args, { stdio: 'inherit', shell, ...options });
  if (error !== undefined) console.error(String(error));
  return status === 0;
}

/** BLOCKSTEP_CUDA=OFF leaves CUDA out although a CUDA compiler is there. Other values are not understood. */
export function cudaOptions() {
  const value = process.env.BLOCKSTEP_CUDA;
  const on = value?.toUpperCase() || 'ON';
  if (on !== 'ON' && on !== 'OFF') throw new Error(`BLOCKSTEP_CUDA must be ON or OFF, got ${value}`);
  return [`-DBLOCKSTEP_CUDA=${on}`];
}

/**
 * The remedy for a build that failed, or cannot begin.
 * @param {string} withoutCMake the command that builds with a compiler alone
 */
export function advice(withoutCMake) {
  const lines = [];
  if (!hasCompiler())
    lines.push(
      '- There is no C++ compiler. blockstep needs one for C++20: g++ 11, clang 14 or MSVC 2022, or newer.',
    );
  if (!has('cmake'))
    lines.push(
      '- There is no CMake, of which blockstep needs 3.24 or newer. Without CMake, for the host alone:',
      `    ${withoutCMake}`,
    );
  const triedCuda = has('cmake') && process.env.BLOCKSTEP_CUDA?.toUpperCase() !== 'OFF';
  if (triedCuda && (has('nvcc') || has('/usr/local/cuda/bin/nvcc')))
    lines.push(
      '- If it is the CUDA code that does not compile: set BLOCKSTEP_CUDA=OFF and build again without it.',
    );
  return lines.join('\n');
}
