// Runs plans that were made by hand.
import type { ExecutorResult } from '../../../src/engine/executor/executor.js';
import type { ReferenceExecutor } from '../../../src/executors/reference/reference-executor.js';
import { type HandEntry, handMade } from './hand.js';

export function run(executor: ReferenceExecutor, ...entries: HandEntry[]): ExecutorResult {
  const { plan, tables } = handMade(entries);
  return executor.execute(plan, tables) as ExecutorResult;
}

/** Tokens that each entry got. */
export function sampled({ tokens, counts }: ExecutorResult, entries: number): number[][] {
  let at = 0;
  return Array.from({ length: entries }, (_, i) => {
    at += counts[i];
    return [...tokens.subarray(at - counts[i], at)];
  });
}
