// Errors of groups to be planted in a step.
import type { MismatchKind } from '../../../../src/core/native/native-reference.js';
import type { GroupTables, StepTables } from '../../../../src/core/tables.js';
import type { Plan } from '../../../../src/index.js';
import type { KvGroup } from '../../../../src/scheduler/options/kv-groups.js';
import type { ReferenceDriver } from '../support.js';

/** Where an error is planted: an entry of a plan, and a group. */
export interface Place {
  entry: number;
  group: number;
}

/** The state of a run that planting an error needs. */
export interface Step {
  driver: ReferenceDriver;
  plan: Plan;
  tables: StepTables;
  /** Blocks that a group's row of a request had in the step before, by handle. */
  earlier: ReadonlyMap<number, readonly Int32Array[]>;
}

/** A kind of error. `plant` answers false where it would be none. */
export interface Kind {
  plant(step: Step, place: Place): boolean;
  /** The faults that the executor must report in the step itself, one of these at least. */
  finds: readonly MismatchKind[];
  /** Whether the finding must be in the group in which the error was planted. Default true. */
  inGroup?: boolean;
}

/** The faults that are found by reading the memory back. */
const WRONG_DATA: readonly MismatchKind[] = ['unwritten-read', 'stale-read', 'foreign-read', 'wrong-read'];

export function rowOf({ blockTable, maxBlocksPerRow }: GroupTables, entry: number): Int32Array {
  return blockTable.subarray(entry * maxBlocksPerRow, (entry + 1) * maxBlocksPerRow);
}

function groupOf({ driver }: Step, group: number): KvGroup {
  return (driver.scheduler.config.kvGroups as { list: readonly KvGroup[] }).list[group];
}

/** Places that hold something computed before the step and that the step reads: from the first one on, up to `end`. */
function placesRead(step: Step, { entry, group }: Place): { first: number; end: number } {
  const { type, window, chunk, blockSize } = groupOf(step, group);
  const computed = step.plan.numComputedTokens[entry];
  if (computed === 0) return { first: 0, end: 0 };
  let from = 0;
  if (type === 'mamba') from = computed - 1;
  if (type === 'sliding') from = Math.max(0, computed + 1 - window);
  if (type === 'chunked') from = computed - (computed % chunk);
  return from >= computed
    ? { first: 0, end: 0 }
    : { first: Math.floor(from / blockSize), end: Math.ceil(computed / blockSize) };
}

/** Puts another block into the first or last place that is read. */
function replace(
  which: 'first' | 'last',
  name: (step: Step, place: Place, at: number) => number,
): Kind['plant'] {
  return (step, place) => {
    const { first, end } = placesRead(step, place);
    if (first === end) return false;
    const at = which === 'first' ? first : end - 1;
    const row = rowOf(step.tables.groups[place.group], place.entry);
    const block = name(step, place, at);
    if (block < 0 || block === row[at]) return false;
    row[at] = block;
    return true;
  };
}

/** A block that another request reads in the same group. */
function blockOfAnother(step: Step, { entry, group }: Place): number {
  const own = new Set(rowOf(step.tables.groups[group], entry));
  for (let other = 0; other < step.plan.numRequests; other++) {
    const { first, end } = placesRead(step, { entry: other, group });
    const block = first === end ? 0 : rowOf(step.tables.groups[group], other)[end - 1];
    if (block !== 0 && !own.has(block)) return block;
  }
  return -1;
}

/** Exchanges an entry's places and slots of two groups with equal blocks. */
function exchange({ plan, tables }: Step, entry: number, a: number, b: number): void {
  const [left, right] = [rowOf(tables.groups[a], entry), rowOf(tables.groups[b], entry)];
  for (let i = 0; i < Math.min(left.length, right.length); i++) [left[i], right[i]] = [right[i], left[i]];
  const from = tables.queryStart[entry];
  const to = from + plan.numScheduledTokens[entry];
  const [slots, others] = [tables.groups[a].slotMapping, tables.groups[b].slotMapping];
  for (let t = from; t < to; t++) [slots[t], others[t]] = [others[t], slots[t]];
}

/**
 * Puts an entry's last token into the same block in two groups, as if the pool had given out that
 * block twice.
 */
function shareBlock({ plan, tables }: Step, entry: number, group: number, other: number): boolean {
  const from = tables.queryStart[entry];
  const last = tables.seqLens[entry] - 1;
  const { blockSize, slotMapping } = tables.groups[group];
  const block = rowOf(tables.groups[other], entry)[Math.floor(last / tables.groups[other].blockSize)];
  const row = rowOf(tables.groups[group], entry);
  const before = row[Math.floor(last / blockSize)];
  row[Math.floor(last / blockSize)] = block;
  for (let t = from; t < from + plan.numScheduledTokens[entry]; t++) {
    const slot = Number(slotMapping[t]);
    if (Math.floor(slot / blockSize) === before)
      slotMapping[t] = BigInt(block * blockSize + (slot % blockSize));
  }
  return block !== before;
}

/** Makes the last entry of a plan begin `more` tokens later, as if its hit were longer. */
function lengthenHit({ plan, tables }: Step, entry: number, more: number): boolean {
  const count = plan.numScheduledTokens[entry];
  if (plan.kinds[entry] === 0 || entry !== plan.numRequests - 1 || count <= more) return false;
  const from = tables.queryStart[entry];
  tables.queryStart.fill(from + count - more, entry + 1);
  tables.numComputedTokens[entry] += more;
  tables.inputIds.copyWithin(from, from + more, from + count);
  for (const { slotMapping } of tables.groups) slotMapping.copyWithin(from, from + more, from + count);
  plan.numComputedTokens[entry] += more;
  plan.numScheduledTokens[entry] -= more;
  // The executor has computed the step by then, and the scheduler has not looked at its plan again.
  queueMicrotask(() => {
    plan.numComputedTokens[entry] -= more;
    plan.numScheduledTokens[entry] += more;
  });
  return true;
}

/** Empties the places in front of a chunk that begins a token later than it does. */
function delayChunk(step: Step, { entry, group }: Place): boolean {
  const { type, chunk, blockSize } = groupOf(step, group);
  const computed = step.plan.numComputedTokens[entry];
  if (type !== 'chunked' || computed === 0) return false;
  const start = Math.floor(computed / chunk) * chunk;
  const row = rowOf(step.tables.groups[group], entry);
  const [from, to] = [start, start + 1].map((token) => Math.floor(token / blockSize));
  // One token later is another block only where the chunk begins with the last token of a block.
  if (from === to || start >= computed || row[from] === 0) return false;
  row.fill(0, from, to);
  return true;
}

/** Gives an entry the state of another place of its row, that it has now or had in the step before. */
function giveOtherState(step: Step, place: Place): boolean {
  const { plan, tables, earlier } = step;
  const { first, end } = placesRead(step, place);
  if (groupOf(step, place.group).type !== 'mamba' || first === end) return false;
  const row = rowOf(tables.groups[place.group], place.entry);
  const before = earlier.get(plan.requests[place.entry].handle)?.[place.group] ?? [];
  const other = [...before, ...row.subarray(0, first)].findLast((id) => id !== 0 && id !== row[first]);
  if (other === undefined) return false;
  row[first] = other;
  return true;
}

/** Empties the last place of a cached prefix. */
function emptyHit(step: Step, { entry, group }: Place): boolean {
  const { plan, tables } = step;
  const { first, end } = placesRead(step, { entry, group });
  if (plan.kinds[entry] === 0 || first === end) return false;
  rowOf(tables.groups[group], entry)[end - 1] = 0;
  return true;
}

export const KINDS: Record<string, Kind> = {
  'a chunk that begins one token too late': { finds: ['null-read'], plant: delayChunk },
  'a state of another place': { finds: WRONG_DATA, plant: giveOtherState },
  'a place of a hit that is kept null': { finds: ['null-read'], plant: emptyHit },
  'a block dropped one too early': { finds: ['null-read'], plant: replace('first', () => 0) },
  'the last place emptied': { finds: ['null-read', 'slot'], plant: replace('last', () => 0) },
  "another request's block": { finds: WRONG_DATA, plant: replace('first', blockOfAnother) },
  "another request's block in the last place": {
    finds: [...WRONG_DATA, 'slot', 'foreign-write'],
    plant: replace('last', blockOfAnother),
  },
  'a block that nobody has': {
    finds: WRONG_DATA,
    plant: replace('first', ({ driver }) => driver.scheduler.core.freeQueue()[0] ?? -1),
  },
  'a block that the request had there before, or next to it': {
    finds: WRONG_DATA,
    plant: replace('first', ({ plan, earlier, tables }, { entry, group }, at) => {
      const rows = earlier.get(plan.requests[entry].handle);
      const own = new Set(rowOf(tables.groups[group], entry));
      const block = [...(rows?.[group] ?? [])].slice(0, at + 1).findLast((id) => id !== 0 && !own.has(id));
      return block ?? -1;
    }),
  },
  'two groups exchanged': {
    finds: [...WRONG_DATA, 'null-read', 'slot', 'moved-block'],
    plant: (step, { entry, group }) => {
      const { groups } = step.tables;
      const other = groups.findIndex((g, i) => i > group && g.blockSize === groups[group].blockSize);
      const { first, end } = placesRead(step, { entry, group });
      if (other < 0 || first === end) return false;
      exchange(step, entry, group, other);
      return true;
    },
  },
  'a block shared by two groups': {
    finds: WRONG_DATA,
    inGroup: false,
    plant: (step, { entry, group }) => {
      const list = step.tables.groups.map((_, g) => groupOf(step, g));
      const other = list.findIndex(({ type }, g) => g !== group && type !== 'mamba');
      return other >= 0 && list[group].type !== 'mamba' && shareBlock(step, entry, group, other);
    },
  },
  'a hit one block too long': {
    finds: [...WRONG_DATA, 'null-read'],
    inGroup: false,
    plant: (step, { entry }) => {
      const { alignment } = step.driver.scheduler.config.kvGroups as { alignment: number };
      return step.driver.scheduler.config.enablePrefixCaching && lengthenHit(step, entry, alignment);
    },
  },
};
