// The KV cache groups of a reference executor, and the part of a plan for each group.
import { badArg, isObject } from '../../base/checks.js';
import { badArgument, show } from '../../base/errors.js';
import type {
  NativeReferenceConfig,
  NativeReferenceGroup,
  StepIo,
} from '../../core/native/native-reference.js';
import { groupShapes, type StepTables } from '../../core/tables.js';
import type { ExecutorPlan } from '../../engine/executor/executor.js';
import { coreConfig } from '../../scheduler/options/core-config.js';
import {
  groupOptions,
  isFull,
  type KvGroup,
  type KvGroupOptions,
  type KvGroups,
} from '../../scheduler/options/kv-groups.js';
import type { RuledConfig } from '../../scheduler/options/options.js';

/**
 * The groups as options, in whichever form the caller gave them. The options are checked elsewhere.
 */
export function asGroupOptions(given: unknown): {
  kvGroups?: KvGroupOptions[] | null;
  hashBlockSize?: number;
} {
  if (given === undefined) return {};
  const isChecked = isObject(given) && Array.isArray(given.list);
  return isChecked
    ? groupOptions(given as unknown as KvGroups)
    : { kvGroups: given as KvGroupOptions[] | null };
}

/** The native description of the groups of a checked configuration. */
export function nativeGroups(
  config: RuledConfig,
): Pick<NativeReferenceConfig, 'groups' | 'blockSize' | 'maxBlocksPerRow'> {
  const { kvGroups, blockSize } = config;
  const core = coreConfig(config);
  if (kvGroups === null) return { blockSize, maxBlocksPerRow: core.maxBlocksPerRow };
  const shapes = groupShapes(core as Parameters<typeof groupShapes>[0]);
  const groups = kvGroups.list.map((group, g) => ({
    ...shapes[g],
    ...readsOf(group),
    zeroed: kvGroups.hasStates && group.type !== 'mamba',
  }));
  const entries = kvGroups.list.map((group) => (group.type === 'mamba' ? 1 : group.blockSize));
  return { groups, blockSize: Math.max(...entries), maxBlocksPerRow: shapes[0].maxBlocksPerRow };
}

function readsOf(group: KvGroup): Pick<NativeReferenceGroup, 'reads' | 'span' | 'everyEnd'> {
  const { type, window, chunk, mode } = group;
  if (isFull(group)) return { reads: 'all', span: 0, everyEnd: false };
  if (type === 'sliding') return { reads: 'window', span: window, everyEnd: false };
  if (type === 'chunked') return { reads: 'chunk', span: chunk, everyEnd: false };
  return { reads: 'state', span: 0, everyEnd: mode === 'all' };
}

/**
 * Refuses tables of several groups if the executor has one group, because it would read only the
 * first.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function refuseGroups({ groups }: Partial<StepTables>): void {
  if (Array.isArray(groups) && groups.length > 1)
    throw badArgument('tables.groups', `${groups.length} groups`, 'one, since the executor has no kvGroups');
}

/**
 * Checks that a plan and its tables have the executor's groups, and copies each group's part of the
 * plan.
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function fillGroups(
  io: StepIo,
  { groups = [], maxEntries }: NativeReferenceConfig,
  plan: ExecutorPlan,
  tables: Partial<StepTables>,
): void {
  const inPlan: unknown = plan.groups;
  if (!Array.isArray(inPlan) || inPlan.length !== groups.length)
    throw badArg('plan.groups', inPlan, `${groups.length} groups`);
  const inTables: unknown = tables.groups;
  if (!Array.isArray(inTables) || inTables.length !== groups.length)
    throw badArg('tables.groups', inTables, `${groups.length} groups`);
  for (const [g, group] of groups.entries()) {
    for (const name of ['blockSize', 'maxBlocksPerRow'] as const) {
      const { [name]: found } = inTables[g];
      if (found !== group[name])
        throw badArgument(`tables.groups[${g}].${name}`, show(found), `${group[name]}`);
    }
  }
  const n = plan.numRequests;
  for (const name of ['numBlocks', 'numNewBlocks'] as const) {
    for (const g of groups.keys()) {
      const column: unknown = plan.groups[g][name];
      if (!(column instanceof Int32Array) || column.length < n)
        throw badArg(`plan.groups[${g}].${name}`, column, `an Int32Array of at least ${n} elements`);
      io[name].set(column.subarray(0, n), g * maxEntries);
    }
  }
}
