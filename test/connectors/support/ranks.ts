import {
  type Executor,
  type ExecutorPlan,
  type ExecutorResult,
  ReferenceExecutor,
  type ReferenceExecutorOptions,
  type StepTables,
} from '../../../src/index.js';

/** Several ranks that compute the same: an executor over one reference executor for each. All must agree. */
export class Ranks implements Executor {
  readonly usesTables = true;
  readonly ranks: readonly ReferenceExecutor[];
  /** Computes the oldest step that was not computed yet, on each rank. */
  readonly waiting: (() => void)[] = [];
  /** Says of a step whether it fails as a whole; it is not computed then. */
  fails: (plan: ExecutorPlan) => boolean = () => false;

  constructor(numRanks: number, options: ReferenceExecutorOptions) {
    const queues: (() => void)[][] = [];
    this.ranks = Array.from({ length: numRanks }, (_, rank) => {
      queues[rank] = [];
      const defer = (compute: () => void): void => {
        queues[rank].push(compute);
        // The last rank was submitted: the step is whole.
        if (rank !== numRanks - 1) return;
        this.waiting.push(() => {
          for (const queue of queues) queue.shift()?.();
        });
      };
      return new ReferenceExecutor({ ...options, defer });
    });
  }

  get limits() {
    return this.ranks[0].limits;
  }

  async execute(plan: ExecutorPlan, tables: StepTables | null): Promise<ExecutorResult> {
    if (this.fails(plan)) throw new Error(`step ${plan.step} fails`);
    const answers = this.ranks.map((rank) => rank.execute(plan, tables));
    const [first, ...others] = await Promise.all(answers);
    const { numRequests } = plan;
    for (const { counts, tokens } of others) {
      const all = first.counts.subarray(0, numRequests).reduce((sum, count) => sum + count, 0);
      const same =
        String(counts.subarray(0, numRequests)) === String(first.counts.subarray(0, numRequests)) &&
        String(tokens.subarray(0, all)) === String(first.tokens.subarray(0, all));
      if (!same) throw new Error('the ranks do not agree');
    }
    return first;
  }

  /** Faults of all ranks. */
  get faults() {
    return this.ranks.flatMap(({ faults }) => faults);
  }

  dispose(): void {
    for (const rank of this.ranks) rank.dispose();
  }
}
