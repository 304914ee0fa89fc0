import { badArgument } from '../../base/errors.js';
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
