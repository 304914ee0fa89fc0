import type { Plan } from '../../../src/scheduler/plan/plan.js';
import type { StepOutputs } from '../../../src/scheduler/plan/step-outputs.js';
import type { Request } from '../../../src/scheduler/request/request.js';
import { finishReasonOf } from '../../../src/scheduler/request/status.js';
import type { Scheduler } from '../../../src/scheduler/scheduler.js';
import type { PlanFacts, RowFacts, Seen, Sight } from '../audit/facts.js';

const KINDS = ['running', 'new', 'resumed'] as const;
const NONE: readonly number[] = [];
const NO_PINS: ReadonlyMap<number, number> = new Map();

/** Copies what a scheduler shows into plain data, for an auditor that knows none of its types. */
export class Observer {
  readonly #scheduler: Scheduler;
  readonly #blocks: Int32Array;
  readonly #free: Int32Array;

  constructor(scheduler: Scheduler) {
    this.#scheduler = scheduler;
    this.#blocks = new Int32Array(scheduler.core.config.maxBlocksPerRow);
    this.#free = new Int32Array(scheduler.config.numBlocks);
  }

  sight(now: number, pins = NO_PINS, connectorWorks = false): Sight {
    const scheduler = this.#scheduler;
    const { native } = scheduler.core;
    scheduler.core.flush();
    const { running, waiting, skipped, requests, draining, quarantined } = scheduler.inspect();
    const { anomalies, ...stats } = scheduler.stats();
    const numFree = native.readFreeQueue(this.#free);
    const refs: number[] = [];
    for (let block = 0; block < scheduler.config.numBlocks; block++) refs.push(native.refCount(block));
    const seen = (request: Request) => this.#seen(request);
    return {
      now,
      running,
      waiting,
      skipped,
      requests: requests.map(seen),
      draining: draining.map(seen),
      quarantined: quarantined.map(seen),
      free: Array.from(this.#free.subarray(0, numFree)),
      published: new Set(scheduler.core.published()),
      fenced: scheduler.fencedBlocks(),
      refs,
      pins,
      rowsInUse: stats.rowsInUse,
      hasWork: scheduler.hasWork(),
      connectorWorks,
      anomalies,
      gauges: stats as unknown as Record<string, number>,
    };
  }

  #seen(request: Request): Seen {
    const { handle, id, container, numTokens, slot } = request;
    const { native, numGroups } = this.#scheduler.core;
    const rows = Array.from({ length: numGroups }, (_, group) => {
      const count = native.readBlocks(slot, 0, this.#blocks, group);
      return Array.from(this.#blocks.subarray(0, count));
    });
    return {
      handle,
      id,
      status: statusOf(request),
      container,
      finished: request.isFinished,
      numTokens,
      numComputed: request.numComputedTokens,
      placeholders: request.numOutputPlaceholders,
      stopReason: request.stopReason,
      rows,
      blocks: rows.flatMap((row) => row.filter((block) => block !== 0)),
      kept: request.keptBlocks === null ? NONE : Array.from(request.keptBlocks),
    };
  }

  plan(plan: Plan): PlanFacts {
    const entries = Array.from({ length: plan.numRequests }, (_, i) => ({
      handle: plan.requests[i].handle,
      kind: KINDS[plan.kinds[i]],
      scheduled: plan.numScheduledTokens[i],
      computed: plan.numComputedTokens[i],
      cached: plan.requests[i]?.numCachedTokens ?? -1,
      drafts: plan.numDraftTokens[i],
      samples: plan.maxOutputTokens[i],
      numBlocks: plan.numBlocks[i],
      numNewBlocks: plan.numNewBlocks[i],
      taken: plan.groups.map(({ numBlocks, numNewBlocks, numHitBlocks }) => {
        const until = numBlocks[i];
        const found = plan.kinds[i] === 0 ? until - numNewBlocks[i] : numHitBlocks[i];
        return { from: found, until, found };
      }),
    }));
    const { step, totalTokens, preempted, finished, finishedHandles, blocksToZero } = plan;
    const zeroed = Array.from(blocksToZero ?? []);
    return { step, totalTokens, entries, preempted, finished, finishedHandles, zeroed };
  }

  drafts(plan: Plan): number[][] {
    return Array.from({ length: plan.numRequests }, (_, i) => {
      const from = i * plan.maxDrafts;
      return Array.from(plan.draftTokens.subarray(from, from + plan.numDraftTokens[i]));
    });
  }

  rows(outputs: StepOutputs): RowFacts[] {
    return Array.from({ length: outputs.length }, (_, i) => {
      const from = outputs.tokenOffsets[i];
      const reason = finishReasonOf(outputs.finishReasons[i]);
      return {
        handle: outputs.requests[i].handle,
        tokens: Array.from(outputs.tokens.subarray(from, from + outputs.tokenCounts[i])),
        reason,
        continues: outputs.continues[i] !== 0,
      };
    });
  }
}

/** The word of a borrowing adapter for a request that it holds up means no more than that it may be held up again. */
function statusOf({ status, container, numPreemptions }: Request): string {
  if (status !== 'WAITING_FOR_CHUNK') return status;
  if (container === 'running') return 'RUNNING';
  return numPreemptions > 0 ? 'PREEMPTED' : 'WAITING';
}
