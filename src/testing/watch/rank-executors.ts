import type { StepTables } from '../../core/tables.js';
import type { Executor, ExecutorPlan, ExecutorResult } from '../../engine/executor/executor.js';
import type { ReferenceExecutorOptions } from '../../executors/reference/options.js';
import { ReferenceExecutor } from '../../executors/reference/reference-executor.js';

/**
 * Computes each step on every rank, each rank with KV memory of its own, at different times. All ranks must say the same
 * tokens: a rank whose KV is wrong says others.
 */
export class RankExecutors implements Executor {
  readonly usesTables = true;
  readonly limits: ReferenceExecutor['limits'];
  readonly ranks: readonly ReferenceExecutor[];
  /** By rank: the steps that were not computed yet, the oldest one first. */
  readonly #waiting: { readonly step: number; compute: () => void }[][];
  #step = -1;
  /** How the ranks differed first; null = they did not. */
  trouble: string | null = null;

  constructor(options: ReferenceExecutorOptions<'cpu'>, numRanks: number) {
    this.#waiting = Array.from({ length: numRanks }, () => []);
    this.ranks = this.#waiting.map((list) => {
      const defer = (compute: () => void): void => void list.push({ step: this.#step, compute });
      return new ReferenceExecutor<'cpu'>({ ...options, device: 'cpu', onMismatch: 'report', defer });
    });
    this.limits = this.ranks[0].limits;
  }

  /** The oldest step that a rank has still to compute; Infinity: none. */
  firstWaiting(rank: number): number {
    return this.#waiting[rank][0]?.step ?? Number.POSITIVE_INFINITY;
  }

  /** Computes a rank's oldest step. @returns false if there is none */
  compute(rank: number): boolean {
    const next = this.#waiting[rank].shift();
    next?.compute();
    return next !== undefined;
  }

  async execute(plan: ExecutorPlan, tables: StepTables | null): Promise<ExecutorResult> {
    this.#step = plan.step;
    const { step, numRequests } = plan;
    const answers = await Promise.all(this.ranks.map((rank) => rank.execute(plan, tables)));
    const [first] = answers;
    for (const [rank, { tokens, counts }] of answers.entries()) {
      const numTokens = sum(first.counts, numRequests);
      if (isEqual(counts, first.counts, numRequests) && isEqual(tokens, first.tokens, numTokens)) continue;
      this.trouble ??= `rank ${rank} computes other tokens than rank 0 in step ${step}: its KV is wrong`;
    }
    return first;
  }

  dispose(): void {
    for (const rank of this.ranks) rank.dispose();
  }
}

function isEqual(a: ArrayLike<number>, b: ArrayLike<number>, count: number): boolean {
  for (let i = 0; i < count; i++) if (a[i] !== b[i]) return false;
  return true;
}

function sum(counts: ArrayLike<number>, count: number): number {
  let total = 0;
  for (let i = 0; i < count; i++) total += counts[i];
  return total;
}
