import { badArgument, show } from '../../base/errors.js';
import type { KvView } from '../../scheduler/connector/kv-view.js';

/**
 * Refuses an engine whose blocks have no hashes. Call it in `bind` of a connector that finds blocks by their hashes:
 * otherwise each of its requests would fail.
 * @param who needs the hashes, for the message
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function needHashes(who: string, { hasHashes }: KvView): void {
  if (!hasHashes)
    throw badArgument('enablePrefixCaching', 'false', `true: ${who} finds blocks by their hashes`);
}

/**
 * Refuses a model with other KV cache groups than one of full attention. Call it in `bind` of a connector that stores the blocks of such a group
 * alone: what it would bring back is a part of what the request needs.
 * @param who stores one group only, for the message
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function needOneGroup(who: string, { layout, groups }: KvView): void {
  if (layout === '') return;
  const given = groups.map(({ type }) => type).join(', ');
  throw badArgument('kvGroups', show(given), `one group of full attention with ${who}`);
}
