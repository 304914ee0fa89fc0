// One step of the reference executor.
import type { ExecutorResult } from '../../src/engine/executor/executor.js';
import { ReferenceExecutor, Scheduler } from '../../src/index.js';
import { type Effort, measure, type Subject } from '../rows/measure.js';
import { type Row, timeRow } from '../rows/row.js';
import { BLOCK_SIZE, HASH_SEED, Prompts } from '../workloads/workloads.js';

export const REFERENCE_EFFORT: Effort = { samples: 200, warmup: 20 };

const CASES = { '64 of 512': [64, 512], '256 of 512': [256, 512], '256 of 2,048': [256, 2048] } as const;

/**
 * One step of the reference executor over running decodes. It reads back and verifies every sequence whole, so the cost of a step
 * grows with the length of its sequences.
 */
export function benchReference(effort: Effort): Row[] {
  return Object.entries(CASES).map(([name, [size, length]]) =>
    timeRow('reference', `execute, ${name}`, measure(execute(size, length, effort), effort), size),
  );
}

function execute(size: number, length: number, effort: Effort): Subject {
  const longest = length + effort.samples + effort.warmup + 2 * BLOCK_SIZE;
  const scheduler = new Scheduler({
    numBlocks: size * (Math.ceil(longest / BLOCK_SIZE) + 1) + 1,
    blockSize: BLOCK_SIZE,
    maxNumSeqs: size,
    maxNumBatchedTokens: size * length,
    maxModelLen: longest,
    hashSeed: HASH_SEED,
  });
  const executor = new ReferenceExecutor(scheduler.config);
  const prompts = new Prompts(length);
  for (let i = 0; i < size; i++)
    scheduler.add({ id: `decode-${i}`, prompt: prompts.next(length), maxTokens: longest });
  const gather = () => {
    const plan = scheduler.schedule();
    return { plan, tables: scheduler.core.gather(plan.frame, plan.numRequests) };
  };
  let step = gather();
  let result = executor.execute(step.plan, step.tables) as ExecutorResult;
  scheduler.update(step.plan, result);
  return {
    before: () => {
      step = gather();
    },
    run: () => {
      result = executor.execute(step.plan, step.tables) as ExecutorResult;
      return undefined;
    },
    after: () => {
      scheduler.update(step.plan, result);
      if (scheduler.numRunning !== size) throw new Error('a decode ended');
    },
  };
}
