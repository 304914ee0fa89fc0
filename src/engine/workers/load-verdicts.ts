import type { TransferReport } from '../../scheduler/connector/connector.js';
import type { Plan } from '../../scheduler/plan/plan.js';

/** A load that one rank of one child is to report. */
type Awaited = Required<TransferReport>;

/**
 * The synchronous loads of the steps in flight that the workers have not reported yet. A step reads such a load when it is
 * executed, whether the load is there or not, so silence must not pass for success: a rank that says nothing, because it threw
 * or because its answer was lost, has not loaded (vLLM #52234 has HTTP 200 with wrong text for it).
 */
export class LoadVerdicts {
  /** By step, the oldest first. */
  readonly #awaited = new Map<number, Awaited[]>();

  /**
   * The loads of a plan are about to begin.
   * @param reporters the ranks that report, by child
   */
  expect({ step, syncLoads }: Plan, reporters: readonly (readonly number[])[]): void {
    if (syncLoads.length === 0) return;
    const awaited = syncLoads.flatMap(({ request: { handle }, child }) =>
      (reporters[child] ?? []).map((rank) => ({ handle, child, rank, step })),
    );
    this.#awaited.set(step, awaited);
  }

  /** Takes the reports out that are about such loads. @returns the others, which the scheduler waits for */
  take(reports: readonly TransferReport[]): readonly TransferReport[] {
    if (this.#awaited.size === 0) return reports;
    return reports.filter((report) => !this.#end(report));
  }

  /** The step was answered. @returns the loads of it that were not reported */
  close(step: number): readonly TransferReport[] {
    const silent = this.#awaited.get(step) ?? [];
    this.#awaited.delete(step);
    return silent;
  }

  /** The oldest load that the report can be about ends. */
  #end({ handle, child = 0, rank, step }: TransferReport): boolean {
    for (const awaited of this.#awaited.values()) {
      const at = awaited.findIndex(
        (each) =>
          each.handle === handle &&
          each.child === child &&
          each.rank === rank &&
          (step === undefined || step === each.step),
      );
      if (at < 0) continue;
      awaited.splice(at, 1);
      return true;
    }
    return false;
  }
}
