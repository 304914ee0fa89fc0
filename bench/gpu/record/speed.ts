// The line about a GPU in README.md.
import { figure } from '../../rows/table.js';
import { type GpuResults, newestGpuResults } from './record.js';

/**
 * The sentence of README.md about a GPU, from the newest result; null if there is none, or if it
 * lacks a figure.
 */
export function gpuSpeed(results: GpuResults | null = newestGpuResults()): string | null {
  const step = 'decode of 256, 16 new blocks';
  const of = (name: string, beside: string): string | null => {
    const found = results?.figures.find(
      (one) => one.name === name && one.beside === beside && one.authority === 'host',
    );
    return found === undefined ? null : figure(found.p50Us);
  };
  const [idle, behind, host] = [
    of(step, 'idle'),
    of(step, 'right behind a matrix product'),
    of(`${step}, host side`, 'idle'),
  ];
  const gpu = results?.host.gpu;
  if (idle === null || behind === null || host === null || !gpu) return null;
  const on = gpu.name.replace('NVIDIA ', '').replace(/ .*/, '');
  const article = /^[AEFHILMNORSX]/.test(on) ? 'an' : 'a';
  return `On ${article} ${on}, updating the block tables on the GPU for a decode step of 256 requests takes ${idle} µs at
  the median. Directly after a matrix product, the update takes ${behind} µs. The host spends ${host} µs on the call.
  Only executors that read block tables on the GPU need this update. Other GPUs are unmeasured: [docs/gpu.md](docs/gpu.md).`;
}
