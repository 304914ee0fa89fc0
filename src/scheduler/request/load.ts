import type { Outstanding } from './outstanding.js';

/** External tokens of one admission that a connector brings. */
export interface Load {
  /** The child of the connector that brings them. */
  readonly child: number;
  /** The step whose metadata begins it. */
  readonly step: number;
  /** Tokens in front of it that were found in the local cache. */
  readonly localTokens: number;
  /** Ids of the blocks that it fills; the first one holds the token behind the local ones. */
  readonly blocks: Int32Array;
  /** Some of it did not come: `Request.numComputedTokens` says how far what stands there is good. */
  failed: boolean;
}

/** Whether anything still writes the blocks of a request that waits for its load. */
export function isLoading({ outstanding }: { readonly outstanding: Outstanding | null }): boolean {
  return outstanding?.hasAny('load') === true;
}
