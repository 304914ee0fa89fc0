import { INSPECT, showFacts } from '../../base/inspect.js';
import type { Plan } from '../../scheduler/plan/plan.js';
import { planFacts } from '../../scheduler/plan/plan-facts.js';
import type { PlanGroup } from '../../scheduler/plan/plan-group.js';
import type { ExecutorPlan, ExecutorRequest } from './executor.js';

const NO_BLOCKS = new Int32Array(0);

/**
 * The copy of a plan that the executor receives. The scheduler applies the answer by its own plan.
 * So anything that an executor writes into the copy leaves the scheduler's plan unchanged.
 */
class PlanView implements ExecutorPlan {
  step = -1;
  readonly frame: number;
  numRequests = 0;
  totalTokens = 0;
  readonly requests: ExecutorRequest[] = [];
  readonly kinds: Uint8Array;
  readonly slots: Int32Array;
  readonly numScheduledTokens: Int32Array;
  readonly numComputedTokens: Int32Array;
  readonly numBlocks: Int32Array;
  readonly numNewBlocks: Int32Array;
  readonly numDraftTokens: Int32Array;
  readonly draftTokens: Int32Array;
  readonly maxDrafts: number;
  readonly numInvalidDraftTokens: Uint8Array;
  readonly needsAllTokens: Uint8Array;
  readonly maxOutputTokens: Uint8Array;
  readonly numHitBlocks: Int32Array;
  readonly groups: readonly PlanGroup[];
  preempted: readonly string[] = [];
  preemptedHandles: readonly number[] = [];
  finished: readonly string[] = [];
  finishedHandles: readonly number[] = [];
  takenBlocks: Int32Array = NO_BLOCKS;
  droppedBlocks: Int32Array = NO_BLOCKS;
  forgottenBlocks: Int32Array = NO_BLOCKS;
  blocksToZero: Int32Array | null = null;
  readonly #plan: Plan;

  constructor(plan: Plan) {
    this.#plan = plan;
    this.frame = plan.frame;
    this.maxDrafts = plan.maxDrafts;
    this.kinds = plan.kinds.slice();
    this.slots = plan.slots.slice();
    this.numScheduledTokens = plan.numScheduledTokens.slice();
    this.numComputedTokens = plan.numComputedTokens.slice();
    this.numBlocks = plan.numBlocks.slice();
    this.numNewBlocks = plan.numNewBlocks.slice();
    this.numDraftTokens = plan.numDraftTokens.slice();
    this.draftTokens = plan.draftTokens.slice();
    this.numInvalidDraftTokens = plan.numInvalidDraftTokens.slice();
    this.needsAllTokens = plan.needsAllTokens.slice();
    this.maxOutputTokens = plan.maxOutputTokens.slice();
    this.numHitBlocks = plan.numHitBlocks.slice();
    const { numBlocks, numNewBlocks, numHitBlocks } = this;
    this.groups = plan.groups.map((group, g) => ({
      numBlocks: g === 0 ? numBlocks : group.numBlocks.slice(),
      numNewBlocks: g === 0 ? numNewBlocks : group.numNewBlocks.slice(),
      numHitBlocks: g === 0 ? numHitBlocks : group.numHitBlocks.slice(),
      numCommonPrefixBlocks: 0,
    }));
  }

  /** Copies the present content of the plan. @throws TypeError if the executor has frozen the view, or transferred its buffers */
  fill(): void {
    const plan = this.#plan;
    this.step = plan.step;
    this.numRequests = plan.numRequests;
    this.totalTokens = plan.totalTokens;
    this.preempted = plan.preempted;
    this.preemptedHandles = plan.preemptedHandles;
    this.finished = plan.finished;
    this.finishedHandles = plan.finishedHandles;
    this.takenBlocks = plan.takenBlocks;
    this.droppedBlocks = plan.droppedBlocks;
    this.forgottenBlocks = plan.forgottenBlocks;
    this.blocksToZero = plan.blocksToZero === null ? null : blocksToZero(plan, plan.blocksToZero);
    // Whole columns are copied, since a subarray would be a new object per column and step.
    this.kinds.set(plan.kinds);
    this.slots.set(plan.slots);
    this.numScheduledTokens.set(plan.numScheduledTokens);
    this.numComputedTokens.set(plan.numComputedTokens);
    this.numBlocks.set(plan.numBlocks);
    this.numNewBlocks.set(plan.numNewBlocks);
    if (plan.maxDrafts > 0) {
      this.numDraftTokens.set(plan.numDraftTokens);
      this.draftTokens.set(plan.draftTokens);
      this.numInvalidDraftTokens.set(plan.numInvalidDraftTokens);
    }
    this.needsAllTokens.set(plan.needsAllTokens);
    this.maxOutputTokens.set(plan.maxOutputTokens);
    this.numHitBlocks.set(plan.numHitBlocks);
    this.#fillGroups();
    const { requests } = this;
    const { requests: from, numRequests } = plan;
    for (let i = 0; i < numRequests; i++) {
      const request = from[i];
      // In steady decode the same request is here already, and storing an object costs more than
      // comparing two.
      if (requests[i] !== request) requests[i] = request;
    }
  }

  #fillGroups(): void {
    const { groups: from } = this.#plan;
    for (let g = 0; g < from.length; g++) {
      const to = this.groups[g];
      to.numCommonPrefixBlocks = from[g].numCommonPrefixBlocks;
      if (g === 0) continue; // its arrays are those of the plan
      to.numBlocks.set(from[g].numBlocks);
      to.numNewBlocks.set(from[g].numNewBlocks);
      to.numHitBlocks.set(from[g].numHitBlocks);
    }
  }

  [INSPECT](depth: number, options: object): string {
    return showFacts('ExecutorPlan', depth, options, {}, () => planFacts(this));
  }

  bitmaskEntries(): number[] {
    return this.#plan.bitmaskEntries();
  }
}

/**
 * The blocks that the executor must zero. A block that a load of this plan fills must not be
 * zeroed. The load has ended by then, or is in progress, and fills whole blocks.
 */
function blocksToZero({ loadedBlocks, syncLoads }: Plan, taken: Int32Array): Int32Array | null {
  if (loadedBlocks.length + syncLoads.length === 0) return taken.slice();
  const loaded = new Set(
    [...loadedBlocks, ...syncLoads.map(({ blocks }) => blocks)].flatMap((ids) => [...ids]),
  );
  const left = taken.filter((id) => !loaded.has(id));
  return left.length === 0 ? null : left;
}

/** One view per frame. A view is reused with its frame, so its arrays keep their addresses. */
export class PlanViews {
  readonly #views: PlanView[] = [];

  /** The view of a plan, filled with the plan's present content. */
  of(plan: Plan): ExecutorPlan {
    try {
      const view = this.#views[plan.frame] ?? this.#make(plan);
      view.fill();
      return view;
    } catch {
      const fresh = this.#make(plan);
      fresh.fill();
      return fresh;
    }
  }

  #make(plan: Plan): PlanView {
    const view = new PlanView(plan);
    this.#views[plan.frame] = view;
    return view;
  }
}
