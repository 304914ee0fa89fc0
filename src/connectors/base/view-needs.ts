// Refuses an engine whose blocks have no hashes, or a model with KV cache groups.
import { badArgument } from '../../base/errors.js';
import type { KvView } from '../../scheduler/connector/kv-view.js';

/**
 * Refuses an engine whose blocks have no hashes. Connectors that find blocks by hash call it in
 * `bind`: without hashes, each of their requests would fail.
 * @param who name of the connector, for the message
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function needHashes(who: string, { hasHashes }: KvView): void {
  if (!hasHashes)
    throw badArgument('enablePrefixCaching', 'false', `true: ${who} finds blocks by their hashes`);
}
