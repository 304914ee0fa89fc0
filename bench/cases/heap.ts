// Allocations of a step, and the memory of a request.
import { Scheduler } from '../../src/index.js';
import { type Allocations, allocations } from '../rows/allocations.js';
import type { Row } from '../rows/row.js';
import { BLOCK_SIZE, type DecodeVariant, HASH_SEED, makeDecode, Prompts } from '../workloads/workloads.js';

const WARMUP = 2000;
const PROMPT = 512;
const RETAINED = 1000;
const SMALL = 64;
const LARGE = 1024;

const STEPS: Record<string, [size: number, variant: DecodeVariant]> = {
  [`step of ${SMALL}`]: [SMALL, {}],
  'step of 256': [256, {}],
  [`step of ${LARGE}`]: [LARGE, {}],
  'step of 256 depth 2': [256, { pipelineDepth: 2 }],
  'step of 256 drafts 3': [256, { drafts: 3 }],
};

/**
 * Three figures of the V8 heap. First, the bytes that a decode step allocates, garbage included,
 * and the number of V8's collections. Second, the share of each running request: the slope between
 * two batch sizes, so that the bytes of the step itself do not count. Third, the memory that an
 * added request holds until it ends.
 */
export function benchHeap(steps: number): Row[] {
  const rows: Row[] = [];
  const perStep = new Map<number, number>();
  for (const [name, [size, variant]] of Object.entries(STEPS)) {
    const { bytes, collections } = allocationsOfDecode(size, steps, variant);
    if (!perStep.has(size)) perStep.set(size, bytes);
    rows.push({ group: 'heap', name, unit: 'bytes', value: bytes, requests: size });
    rows.push({ group: 'heap', name: `${name}, in all`, unit: 'collections', value: collections });
  }
  const slope = ((perStep.get(LARGE) as number) - (perStep.get(SMALL) as number)) / (LARGE - SMALL);
  rows.push({ group: 'heap', name: 'step, per request', unit: 'bytes', value: slope });
  rows.push({ group: 'heap', name: 'held by an added request', unit: 'bytes', value: heldByRequest() });
  return rows;
}

/** Bytes per step, less what an empty loop allocates; and the collections during all steps. */
function allocationsOfDecode(size: number, steps: number, variant: DecodeVariant): Allocations {
  const { scheduler, step } = makeDecode(size, WARMUP + steps + 2, variant);
  for (let i = 0; i < WARMUP; i++) step();
  const loop = allocations(() => undefined, steps);
  const all = allocations(step, steps);
  scheduler.dispose();
  return { bytes: (all.bytes - loop.bytes) / steps, collections: all.collections };
}

/** Bytes that a waiting request keeps alive on the V8 heap. Its tokens and hashes lie in native memory. */
function heldByRequest(): number {
  const scheduler = new Scheduler({ numBlocks: 1000, blockSize: BLOCK_SIZE, hashSeed: HASH_SEED });
  const prompts = new Prompts(PROMPT);
  const add = (kind: string) => {
    for (let i = 0; i < RETAINED; i++) {
      scheduler.add({ id: `${kind}-${i}`, prompt: prompts.next(PROMPT), maxTokens: 256, eosTokenId: 2 });
    }
  };
  add('warm');
  globalThis.gc?.();
  const before = process.memoryUsage().heapUsed;
  add('held');
  globalThis.gc?.();
  const held = process.memoryUsage().heapUsed - before;
  scheduler.dispose();
  return held / RETAINED;
}
