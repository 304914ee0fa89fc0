import { badArgument } from '../../base/errors.js';
import {
  type KvGroup,
  type KvGroupOptions,
  type KvGroups,
  parseKvGroups,
} from '../../scheduler/options/kv-groups.js';
import type { RuledConfig } from '../../scheduler/options/options.js';

/**
 * Refuses a scheduler whose KV cache groups differ from those that its executor was made for. It
 * does not matter which group belongs to a drafter: that decides hits, and not where KV lies.
 * @param made the limit `kvGroups`; undefined if the executor gives none
 * @throws ERR_BLOCKSTEP_BAD_ARG with both lists; or for a limit that cannot be the groups of this
 * scheduler
 */
export function refuseOtherGroups(
  made: readonly KvGroupOptions[] | null | undefined,
  config: RuledConfig,
): void {
  if (made === undefined) return;
  const { kvGroups, connector } = config;
  const hashBlockSize = kvGroups?.hashBlockSize;
  const own = parseKvGroups(made, hashBlockSize, { ...config, hasConnector: connector !== null });
  const [given, expected] = [describe(kvGroups), describe(own)];
  if (given !== expected)
    throw badArgument('kvGroups', given, `${expected}, which the executor was made for`);
}

/** The properties of groups that an executor depends on, as text. */
function describe(groups: KvGroups | null): string {
  return groups === null ? 'none' : groups.list.map(describeGroup).join(' + ');
}

function describeGroup(group: KvGroup): string {
  const { type, blockSize, window, chunk, mode, numSpeculativeBlocks, sinkTokens } = group;
  const facts = { blockSize, window, chunk, sinkTokens, numSpeculativeBlocks };
  const numbers = Object.entries(facts).flatMap(([name, value]) => (value > 0 ? `${name} ${value}` : []));
  return `${type} (${[...(mode === null ? [] : [`mode ${mode}`]), ...numbers].join(', ')})`;
}
