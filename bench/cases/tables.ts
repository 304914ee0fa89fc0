// Gathering the tables of a step for a model runner.
import { Scheduler } from '../../src/index.js';
import { type Effort, measure, type Subject } from '../rows/measure.js';
import { type Row, timeRow } from '../rows/row.js';
import { BLOCK_SIZE, HASH_SEED, Prompts } from '../workloads/workloads.js';

export const TABLES_EFFORT: Effort = { samples: 4000, warmup: 1000 };

const PROMPT = 512;
const SIZES = [1, 64, 256, 1024];
const SAMPLED = 7;

/** How tables differ from those of plain decodes. */
interface Variant {
  /**
   * Most tokens of a request: the width of the block table. Default: the tokens that the decodes
   * reach.
   */
  maxModelLen?: number;
  /** Most requests: the number of its rows. Default: the number of decodes. */
  maxNumSeqs?: number;
}

/**
 * `Core.gather` of N running decodes of 512 tokens and more, once per step. The same in tables of
 * far greater capacity must cost the same. The last case is one step that prefills 8,192 tokens.
 */
export function benchTables(effort: Effort): Row[] {
  const rows = SIZES.map((size) => gatherRow(`gather, ${size}`, size, {}, effort));
  const roomy = { maxModelLen: 131_072, maxNumSeqs: 4096 };
  rows.push(gatherRow('gather, 256 of 4,096 x 131k', 256, roomy, effort));
  rows.push(timeRow('tables', 'gather, prefill of 16 x 512', measure(prefill(16), effort), 16));
  return rows;
}

function gatherRow(name: string, size: number, variant: Variant, effort: Effort): Row {
  const scheduler = decodes(size, effort.samples + effort.warmup + 2, variant);
  const latency = measure(decode(scheduler, size), effort);
  if (scheduler.numRunning !== size) throw new Error(`${name} is not what it says`);
  scheduler.dispose();
  return timeRow('tables', name, latency, size);
}

function decodes(size: number, numSteps: number, { maxModelLen, maxNumSeqs }: Variant): Scheduler {
  const longest = PROMPT + BLOCK_SIZE + numSteps;
  const scheduler = new Scheduler({
    numBlocks: size * (Math.ceil(longest / BLOCK_SIZE) + 1) + 1,
    blockSize: BLOCK_SIZE,
    maxNumSeqs: maxNumSeqs ?? size,
    maxNumBatchedTokens: Math.max(8192, size * (PROMPT + BLOCK_SIZE)),
    maxModelLen: maxModelLen ?? longest,
    hashSeed: HASH_SEED,
  });
  const prompts = new Prompts(PROMPT + BLOCK_SIZE);
  for (let i = 0; i < size; i++) {
    scheduler.add({ id: `decode-${i}`, prompt: prompts.next(PROMPT + (i % BLOCK_SIZE)), maxTokens: longest });
  }
  scheduler.update(scheduler.schedule(), ones(size));
  return scheduler;
}

function decode(scheduler: Scheduler, size: number): Subject {
  const result = ones(size);
  let plan = scheduler.schedule();
  scheduler.update(plan, result);
  return {
    before: () => {
      plan = scheduler.schedule();
    },
    run: () => {
      scheduler.core.gather(plan.frame, plan.numRequests);
      return undefined;
    },
    after: () => {
      scheduler.update(plan, result);
    },
  };
}

/** One plan of `size` prompts, gathered again and again. */
function prefill(size: number): Subject {
  const scheduler = new Scheduler({
    numBlocks: 2 * size * (PROMPT / BLOCK_SIZE),
    maxNumSeqs: size,
    hashSeed: HASH_SEED,
  });
  const prompts = new Prompts(PROMPT);
  for (let i = 0; i < size; i++)
    scheduler.add({ id: `prefill-${i}`, prompt: prompts.next(PROMPT), maxTokens: 2 });
  const plan = scheduler.schedule();
  if (plan.totalTokens !== size * PROMPT) throw new Error('the prompts were not scheduled whole');
  return {
    run: () => {
      scheduler.core.gather(plan.frame, plan.numRequests);
      return undefined;
    },
  };
}

function ones(size: number) {
  return { tokens: new Int32Array(size).fill(SAMPLED), counts: new Int32Array(size).fill(1) };
}
