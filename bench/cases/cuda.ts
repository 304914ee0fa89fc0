// Decode steps with a mirror on a GPU, beside steps without.
import { probeBackends } from '../../src/index.js';
import { type Effort, measure } from '../rows/measure.js';
import { type Row, timeRow } from '../rows/row.js';
import { makeDecode } from '../workloads/workloads.js';

const SIZES = [64, 256, 1024];
/** Sizes for which docs/gpu.md compares decisions of the GPU with those of the host. */
const DECIDED = [256, 1024];

export const CUDA_EFFORT: Effort = { samples: 6000, warmup: 1500 };

/**
 * One whole step (schedule and update, through Node-API) of N running decodes. The state is on the
 * host alone, or has a mirror on a GPU: the difference is the cost of the mirror for its caller.
 * And the same where the GPU decides. Without a usable GPU there is nothing to measure.
 */
export function benchCuda(effort: Effort): Row[] {
  const [, cuda] = probeBackends();
  if (!cuda.usable) {
    console.log(`cuda: nothing to measure: ${cuda.reason}`);
    return [];
  }
  for (const backend of ['host', 'cuda'] as const) decodeRow(64, backend, effort); // compiles the path
  return [
    ...SIZES.flatMap((size) => [decodeRow(size, 'host', effort), decodeRow(size, 'cuda', effort)]),
    ...DECIDED.map((size) => decidedRow(size, effort)),
  ];
}

function decidedRow(size: number, effort: Effort): Row {
  const variant = { backend: 'cuda', authority: 'device' } as const;
  const { scheduler, step } = makeDecode(size, effort.samples + effort.warmup + 2, variant);
  const latency = measure({ run: step }, effort);
  scheduler.dispose();
  return timeRow('cuda', `decode of ${size.toLocaleString('en-US')}, decided by the GPU`, latency, size);
}

function decodeRow(size: number, backend: 'host' | 'cuda', effort: Effort): Row {
  const { scheduler, step } = makeDecode(size, effort.samples + effort.warmup + 2, { backend });
  const latency = measure({ run: step }, effort);
  if (scheduler.core.backend.name !== backend)
    throw new Error(`decode ${size} ran on ${scheduler.core.backend.name}`);
  scheduler.dispose();
  return timeRow('cuda', `decode of ${size.toLocaleString('en-US')}, backend ${backend}`, latency, size);
}
