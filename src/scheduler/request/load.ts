import type { Outstanding } from './outstanding.js';

/** The external tokens of one admission, which a connector loads into blocks of the request. */
export interface Load {
  /** The child of the connector that loads them; 0 for a connector that is not composite. */
  readonly child: number;
  /** The step whose connector metadata begins the load. */
  readonly step: number;
  /** Tokens before the load, found in the local prefix cache. */
  readonly localTokens: number;
  /** Tokens that the load is to bring. */
  readonly numTokens: number;
  /** Ids of the blocks that the load fills. The first one holds the token after the local ones. */
  readonly blocks: Int32Array;
  /**
   * True: the load failed, wholly or in part. `Request.numComputedTokens` then gives the end of the
   * good KV.
   */
  failed: boolean;
}

/**
 * Whether a load of the request is still in progress, so that its blocks are still being written.
 */
export function isLoading({ outstanding }: { readonly outstanding: Outstanding | null }): boolean {
  return outstanding?.hasAny('load') === true;
}
