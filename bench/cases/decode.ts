// One whole step of 1 to 1,024 running decodes, and its variants.
import { type Effort, measure } from '../rows/measure.js';
import { type Row, timeRow } from '../rows/row.js';
import { type DecodeVariant, makeDecode } from '../workloads/workloads.js';

const DECODE_SIZES = [1, 8, 32, 64, 128, 256, 512, 1024];

/** Enough steps for a p99, few enough that the requests stay near 512 to 8,000 tokens. */
export const DECODE_EFFORT: Effort = { samples: 6000, warmup: 1500 };

const VARIANTS: Record<string, DecodeVariant> = {
  '256 evicting': { evicting: true },
  '256 depth 2': { pipelineDepth: 2 },
  '256 drafts 3': { drafts: 3 },
  '256, 64 transfers': { transfers: 64 },
};

/** One whole step (schedule and update, through Node-API) of N running decodes, and its variants at 256. */
export function benchDecode(effort: Effort): Row[] {
  // V8 compiles in a thread of its own; runs of few requests would be over before it has compiled the path for them.
  for (const size of [64, 1, 8, 1, 8]) decodeRow('warm-up', size, DECODE_EFFORT, {});
  const plain = DECODE_SIZES.map((size) => decodeRow(String(size), size, effort, {}));
  const variants = Object.entries(VARIANTS).map(([name, variant]) => decodeRow(name, 256, effort, variant));
  return [...plain, ...variants];
}

function decodeRow(name: string, size: number, effort: Effort, variant: DecodeVariant): Row {
  const { scheduler, step } = makeDecode(size, effort.samples + effort.warmup + 2, variant);
  const latency = measure({ run: step }, effort);
  const stats = scheduler.stats();
  const evicted = stats.evictions > 0;
  const numTransfers = stats.outstanding.load.count + stats.outstanding.store.count;
  if (numTransfers !== (variant.transfers ?? 0))
    throw new Error(`decode ${name} has ${numTransfers} transfers`);
  if (stats.numRunning !== size || stats.numPreemptions > 0 || evicted !== (variant.evicting ?? false)) {
    throw new Error(`decode ${name} is not what it says: ${JSON.stringify(stats)}`);
  }
  scheduler.dispose();
  return timeRow('decode', name, latency, size);
}
