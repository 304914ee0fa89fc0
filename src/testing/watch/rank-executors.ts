import type { StepTables } from '../../core/tables.js';
import type { Executor, ExecutorPlan, ExecutorResult } from '../../engine/executor/executor.js';
import type { ReferenceExecutorOptions } from '../../executors/reference/options.js';
import { ReferenceExecutor } from '../../executors/reference/reference-executor.js';

/** Decides by chance which steps and rows fail. */
export interface StepFate {
  stepFails(): boolean;
  rowFails(): boolean;
}

/** A step that failed, wholly or in part. */
interface FailedStep {
  readonly step: number;
  /** The entries that failed. */
  readonly rows: readonly number[];
  readonly isWhole: boolean;
  /**
   * Steps up to this one were planned before the failure was known, so they may read its garbage.
   */
  until: number;
}

/**
 * Computes each step on every rank, at different times. Each rank has its own KV memory. All ranks
 * must sample the same tokens: a rank with wrong KV samples others. The KV of a failed row becomes
 * garbage.
 */
export class RankExecutors implements Executor {
  readonly usesTables = true;
  readonly limits: ReferenceExecutor['limits'];
  readonly ranks: readonly ReferenceExecutor[];
  readonly #fate: StepFate;
  /** By rank: the steps that are not computed yet, the oldest first. */
  readonly #waiting: { readonly step: number; compute: () => void }[][];
  readonly #failed: FailedStep[] = [];
  #step = -1;
  /** Blocks that the step leaves as garbage. */
  #garbled: readonly number[] = [];
  /** The first difference between the ranks; null: none. */
  trouble: string | null = null;

  constructor(options: ReferenceExecutorOptions<'cpu'>, numRanks: number, fate: StepFate) {
    this.#fate = fate;
    this.#waiting = Array.from({ length: numRanks }, () => []);
    this.ranks = this.#waiting.map((list) => {
      const defer = (compute: () => void): void => {
        const garbled = this.#garbled;
        const computeAndGarble = (): void => {
          compute();
          for (const block of garbled) rank.kv.block(block).fill(0);
        };
        list.push({ step: this.#step, compute: computeAndGarble });
      };
      const rank = new ReferenceExecutor<'cpu'>({ ...options, device: 'cpu', onMismatch: 'report', defer });
      return rank;
    });
    this.limits = this.ranks[0].limits;
  }

  /** The oldest step that a rank must still compute; Infinity: none. */
  firstWaiting(rank: number): number {
    return this.#waiting[rank][0]?.step ?? Number.POSITIVE_INFINITY;
  }

  /** Computes a rank's oldest step. @returns false if there is none */
  compute(rank: number): boolean {
    const next = this.#waiting[rank].shift();
    next?.compute();
    return next !== undefined;
  }

  /**
   * Notes that the answer of a step is being taken.
   * @param planned the step that was planned last
   */
  settled(step: number, planned: number): void {
    for (const failed of this.#failed)
      if (failed.step <= step) failed.until = Math.min(failed.until, planned);
  }

  /** The first fault of a rank that no earlier failed step explains. */
  firstFault(rank: number): ReferenceExecutor['faults'][number] | undefined {
    return this.ranks[rank].faults.find(({ step }) => !this.#isExcused(step));
  }

  async execute(plan: ExecutorPlan, tables: StepTables | null): Promise<ExecutorResult> {
    const { step, numRequests } = plan;
    const failed = this.#draw(plan);
    this.#step = step;
    this.#garbled = failed === null ? [] : failed.rows.flatMap((i) => writtenBlocks(plan, tables, i));
    const answers = await Promise.all(this.ranks.map((rank) => rank.execute(plan, tables)));
    const [first] = answers;
    for (const [rank, { tokens, counts }] of answers.entries()) {
      const numTokens = sum(first.counts, numRequests);
      if (isEqual(counts, first.counts, numRequests) && isEqual(tokens, first.tokens, numTokens)) continue;
      if (this.#isExcused(step)) continue;
      this.trouble ??= `rank ${rank} computes other tokens than rank 0 in step ${step}: its KV is wrong`;
    }
    if (failed === null) return first;
    if (failed.isWhole) throw new Error(`step ${step} fails by chance`);
    const errors = new Uint8Array(numRequests);
    for (const row of failed.rows) errors[row] = 1;
    return { ...first, errors };
  }

  dispose(): void {
    for (const rank of this.ranks) rank.dispose();
  }

  #draw({ step, numRequests }: ExecutorPlan): FailedStep | null {
    const all = Array.from({ length: numRequests }, (_, i) => i);
    const isWhole = this.#fate.stepFails();
    const rows = isWhole ? all : all.filter(() => this.#fate.rowFails());
    if (rows.length === 0) return null;
    const failed = { step, rows, isWhole, until: Number.POSITIVE_INFINITY };
    this.#failed.push(failed);
    return failed;
  }

  #isExcused(step: number): boolean {
    return this.#failed.some((failed) => failed.step < step && step <= failed.until);
  }
}

/** The blocks that an entry of a plan writes, in all KV cache groups. */
function writtenBlocks(plan: ExecutorPlan, tables: StepTables | null, entry: number): number[] {
  const from = plan.numComputedTokens[entry];
  const end = from + plan.numScheduledTokens[entry];
  return (tables?.groups ?? []).flatMap(({ blockTable, blockSize, maxBlocksPerRow }) => {
    const row = blockTable.subarray(entry * maxBlocksPerRow, (entry + 1) * maxBlocksPerRow);
    return [...row.subarray(Math.floor(from / blockSize), Math.ceil(end / blockSize))].filter(
      (block) => block !== 0,
    );
  });
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
