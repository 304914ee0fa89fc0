import type { TransferReport } from '../../scheduler/connector/connector.js';
import type { Plan } from '../../scheduler/plan/plan.js';

/** A load that one rank of one child connector must report. */
type Awaited = Required<Omit<TransferReport, 'declined'>>;

/**
 * The synchronous loads of the steps in flight that the workers have not reported yet. A step reads
 * the blocks of a synchronous load when it is executed, loaded or not. So a rank that reports
 * nothing counts as failed: it may have thrown, or its answer was lost. To treat silence as success
 * gives wrong text (vLLM #52234: HTTP 200 with wrong text).
 */
export class LoadVerdicts {
  /** Unreported loads by step number, the oldest step first. */
  readonly #awaited = new Map<number, Awaited[]>();

  /**
   * Notes the synchronous loads of a plan before they begin.
   * @param reporters by child connector: the ranks that report its loads
   */
  expect({ step, syncLoads }: Plan, reporters: readonly (readonly number[])[]): void {
    if (syncLoads.length === 0) return;
    const awaited = syncLoads.flatMap(({ request: { handle }, child }) =>
      (reporters[child] ?? []).map((rank) => ({ handle, child, rank, step })),
    );
    this.#awaited.set(step, awaited);
  }

  /** Removes the reports of awaited synchronous loads. @returns the other reports, which the scheduler waits for */
  removeAwaited(reports: readonly TransferReport[]): readonly TransferReport[] {
    if (this.#awaited.size === 0) return reports;
    return reports.filter((report) => !this.#end(report));
  }

  /** Forgets a step that was answered. @returns the step's loads that were not reported */
  close(step: number): readonly TransferReport[] {
    const silent = this.#awaited.get(step) ?? [];
    this.#awaited.delete(step);
    return silent;
  }

  /** Ends the oldest load that matches a report. @returns false if no load matches */
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
