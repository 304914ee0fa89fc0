import type { Plan } from '../plan/plan.js';
import type { Request } from '../request/request.js';
import type { KvExtent } from './kv-extent.js';

/**
 * Ids of blocks, one list for each KV cache group; a model whose layers are all alike has one group. A list is borrowed: it
 * is valid during the call that it is given in.
 */
export type BlockLists = readonly Int32Array[];

/** What a request that has ended leaves behind. `readableFrom` and the counts: see `KvExtent`. */
export interface HandOver extends KvExtent {
  /**
   * Its blocks, as many as its computed tokens fill or begin (`Request.numComputedTokens`, which counts what is still being
   * loaded or computed: `numTokens` does not count a load); an empty list if there are none. Without the deviation
   * `clipHandOver` all that it has, also those that nothing was computed in (vLLM before #46694).
   */
  readonly blocks: BlockLists;
}

/**
 * What the scheduler side of a connector may know of requests and their blocks, and what it may do to them. Everything may be
 * called from inside the connector's methods, and between two calls of the scheduler; of anywhere else, for instance a
 * grammar, a log cannot tell the place.
 *
 * Requests are the objects that the connector's methods are given, or handles of them. Each is good until the connector was
 * told of its end (`requestFinished`), that call included.
 */
export interface KvView {
  /** Tokens a block, in every group. */
  readonly blockSize: number;

  /** KV cache groups: lists in every `BlockLists`. */
  readonly numGroups: number;

  /** The tokens of a request that are known: its prompt, and what was generated. A copy. @throws ERR_BLOCKSTEP_BAD_ARG */
  tokens(request: Request): Int32Array;

  /**
   * The hash of block `index` of a request's tokens, which it must fill: 128 bits, of all tokens up to the end of the block,
   * of the request's salt and of its adapter. Equal in every scheduler with the same `hashSeed` and block size.
   * @throws ERR_BLOCKSTEP_BAD_ARG if the known tokens do not fill that block
   */
  blockHash(request: Request, index: number, group?: number): bigint;

  /** Blocks that the known tokens of a request fill, whether they are computed or not: those that have a hash. */
  numFullBlocks(request: Request, group?: number): number;

  /** The blocks of a request, in the order of its tokens; empty lists if it holds none. @throws ERR_BLOCKSTEP_BAD_ARG */
  blocks(request: Request): BlockLists;

  /**
   * The blocks that entry `entry` of a plan took from the pool in this step, in the order of its tokens. `Plan.numNewBlocks`
   * of an entry that was admitted counts its cached prefix too, and what it held before; this does not.
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  newBlocks(plan: Plan, entry: number): BlockLists;

  /** How much of a request's KV stands in its blocks now, and from which step on the rest does. */
  extent(request: Request): KvExtent;

  /**
   * Registers that the connector reads or keeps a request's blocks: a store of one that still runs, a lease. Until `complete`
   * is called they go to nobody. Meanwhile the request is no victim of preemption; a forced reset, or a step or load that
   * failed, preempts it, and the blocks stay pinned. When the request has ended, its blocks stay until every use is over. A
   * worker says that its part is over by its metadata.
   * @param kind `store` or `lease`
   * @param owner names the use among those of its kind, for instance a job; not `child C rank R`, which names what
   * `requestFinished` began
   * @returns false, and counted, if the handle is stale or the use is registered already
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  hold(handle: number, kind: 'store' | 'lease', owner: string): boolean;

  /** Ends a use that `hold` registered. @returns false, and counted, if there is none @throws ERR_BLOCKSTEP_BAD_ARG */
  complete(handle: number, kind: 'store' | 'lease', owner: string): boolean;

  /**
   * Has a request asked about again that waits for this connector (`Match.wakes`), in the next step that admits anything.
   * @returns false if it does not wait so: nothing is counted, since it may have ended, or been woken before
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  wake(handle: number): boolean;
}
