import type { GroupTables, StepTables } from '../../core/tables.js';
import { EntryKind } from '../../scheduler/plan/plan.js';
import type { ExecutorPlan } from './executor.js';

/** Marks a place of a row that holds no block. */
const NULL_BLOCK = 0;

/** A prefix cache hit on a block that another entry computes in the same step. */
export interface HitInStep {
  /** The entry that hits the block. */
  readonly entry: number;
  /** Place of the block in the entry's row of the block table, from 0. */
  readonly index: number;
  /** Id of the block. */
  readonly block: number;
  /** The entry that computes the block. */
  readonly provider: number;
}

/**
 * The hits of a plan on blocks that the same step computes, ordered by entry and then by `index`.
 * They matter to a model that computes entries one after the other: it must compute the providers
 * first. A model that writes the KV of the whole batch before it reads any KV can ignore them.
 * @param tables the tables of the plan, on the host
 * @param blockSize tokens per block of the KV cache group
 * @param group the KV cache group, by its index in `tables.groups`. Empty places of its rows are
 * not hits. Default 0
 */
export function computedInStep(
  plan: ExecutorPlan,
  tables: StepTables,
  blockSize: number,
  group = 0,
): HitInStep[] {
  const rows = tables.groups[group];
  const hits: HitInStep[] = [];
  let providers: Map<number, number> | null = null;
  for (let entry = 0; entry < plan.numRequests; entry++) {
    const numHits =
      plan.kinds[entry] === EntryKind.running ? 0 : Math.floor(plan.numComputedTokens[entry] / blockSize);
    if (numHits === 0) continue;
    providers ??= providersOf(plan, rows, blockSize);
    for (let index = 0; index < numHits; index++) {
      const block = blockAt(rows, entry, index);
      const provider = providers.get(block);
      if (provider !== undefined) hits.push({ entry, index, block, provider });
    }
  }
  return hits;
}

type Rows = Pick<GroupTables, 'blockTable' | 'maxBlocksPerRow'>;

function providersOf(plan: ExecutorPlan, rows: Rows, blockSize: number): Map<number, number> {
  const providers = new Map<number, number>();
  for (let entry = 0; entry < plan.numRequests; entry++) {
    const first = Math.floor(plan.numComputedTokens[entry] / blockSize);
    const end = Math.ceil((plan.numComputedTokens[entry] + plan.numScheduledTokens[entry]) / blockSize);
    for (let index = first; index < end; index++) providers.set(blockAt(rows, entry, index), entry);
  }
  providers.delete(NULL_BLOCK);
  return providers;
}

function blockAt({ blockTable, maxBlocksPerRow }: Rows, entry: number, index: number): number {
  return blockTable[entry * maxBlocksPerRow + index];
}
