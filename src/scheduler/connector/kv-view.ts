import type { TierMedium } from '../events/kv-event.js';
import type { Plan } from '../plan/plan.js';
import type { ConnectorRequest } from '../request/connector-request.js';
import type { KvExtent } from './kv-extent.js';
import type { KvViewGroup, PlaceRange } from './view-group.js';

/**
 * Ids of blocks, one list for each KV cache group. A model whose layers are all alike has one
 * group. Place i of a list is for the tokens from i x the group's block size on. An empty place is
 * 0, for instance left of a window. A list is borrowed: it is valid during the call that received
 * it.
 */
export type BlockLists = readonly Int32Array[];

/** A plan as a connector reads it. It is borrowed, as block lists are. */
export interface ConnectorPlan extends Readonly<Omit<Plan, 'requests'>> {
  /** The request of each entry. Entries behind `numRequests` are left from older plans. */
  readonly requests: readonly ConnectorRequest[];
}

/** The KV that a request leaves behind when it ends. For `readableFrom` and the counts see `KvExtent`. */
export interface HandOver extends KvExtent {
  /**
   * The request's blocks, as many as its computed tokens fill or begin; an empty list if there are none. Computed
   * tokens are `ConnectorRequest.numComputedTokens`, which counts what is still being loaded or computed; `numTokens` does not
   * count a load. Without the deviation `clipHandOver` all blocks of the request, also those in which nothing was
   * computed (vLLM before #46694).
   */
  readonly blocks: BlockLists;
}

/**
 * The scheduler side's view of requests and their blocks, with the operations on them that it may
 * use. Every method may be called from inside the connector's methods, and between two calls of the
 * scheduler. It must not be called from elsewhere, for instance from a grammar, because a log could
 * not record when the call came.
 *
 * A request is named by the object that the connector's methods receive, or by its handle. Both are
 * valid until the connector was notified of the request's end, the call of `requestFinished`
 * included.
 */
export interface KvView {
  /** Tokens per block of the first group, which is the only group of most models. */
  readonly blockSize: number;

  /** Blocks of the pool; their ids are 0 to numBlocks - 1. Block 0 is never used. */
  readonly numBlocks: number;

  /** Whether blocks have hashes: false with `enablePrefixCaching: false`. */
  readonly hasHashes: boolean;

  /**
   * Names the hashes of this scheduler's blocks, in 32 hexadecimal digits: schedulers with the same
   * name and the same block size agree on `blockHash`. The name is derived from `hashSeed`, without
   * revealing it, and covers the hash function too. Null if no `hashSeed` was given: the seed is
   * then random, and no other scheduler has these hashes.
   */
  readonly hashSpace: string | null;

  /** The number of KV cache groups, and of lists in every `BlockLists`. */
  readonly numGroups: number;

  /**
   * The properties of each group. A block has the same number of bytes in every group, but may have
   * a different number of tokens.
   */
  readonly groups: readonly KvViewGroup[];

  /**
   * The least common multiple of the groups' block sizes, in tokens. Only after a multiple of it
   * can every group be found by hashes.
   */
  readonly alignment: number;

  /**
   * Names the groups: schedulers whose groups differ have different names, and cannot use each
   * other's blocks. Empty for one group of full attention.
   */
  readonly layout: string;

  /**
   * False: the scheduler refuses everything that a connector could load, and counts it
   * (`SchedulerStats.refusedMatches`). This is so if steps must end at the end of a block (Mamba in
   * mode `align`).
   */
  readonly acceptsLoads: boolean;

  /**
   * Milliseconds without a sign of life (`ConnectorOutput.renewed`) after which the blocks of a
   * finished request are quarantined:
   * `deadlines.reclaim`. 0: they never are.
   */
  readonly reclaimMs: number;

  /**
   * The places of a group that a request needs to resume after `numTokens` tokens. A match of that
   * length may be offered only if all of them can be filled: found locally, or loaded. No other
   * place must be loaded, because it is empty.
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  neededPlaces(group: number, numTokens: number): PlaceRange;

  /**
   * A copy of a request's known tokens: its prompt, and the generated tokens. @throws
   * ERR_BLOCKSTEP_BAD_ARG
   */
  tokens(request: ConnectorRequest): Int32Array;

  /**
   * The 128-bit hash of block `index` of a request's tokens, in a group (default the first). The known tokens must fill the block. The hash
   * covers all tokens up to the end of the block, the request's salt and its adapter. It is equal in every scheduler with
   * the same `hashSeed` and block size. Blocks of two groups that end at the same token have the same hash: a key is hash and group.
   * @throws ERR_BLOCKSTEP_BAD_ARG if the known tokens do not fill that block, or blocks have no hashes (`hasHashes`)
   */
  blockHash(request: ConnectorRequest, index: number, group?: number): bigint;

  /**
   * The number of blocks of a group (default the first) that the known tokens of a request fill,
   * computed or not. These blocks have a hash. @throws ERR_BLOCKSTEP_BAD_ARG
   */
  numFullBlocks(request: ConnectorRequest, group?: number): number;

  /**
   * The blocks of a request, in the order of its tokens; empty lists if it has none. @throws ERR_BLOCKSTEP_BAD_ARG
   */
  blocks(request: ConnectorRequest): BlockLists;

  /**
   * Like `blocks`, for one group (default the first) and without allocating: copies block ids from
   * index `from` on.
   * @param out receives as many as it has room for
   * @returns how many were copied; 0 if the request has no more than `from` blocks
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  readBlocks(request: ConnectorRequest, from: number, out: Int32Array, group?: number): number;

  /**
   * The blocks that an entry of a plan took from the pool in its step, in the order of its tokens,
   * by group. A 0 is an empty place.
   * `Plan.numNewBlocks` of an admitted entry also counts its cached prefix, and blocks that it held
   * before.
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  newBlocks(plan: ConnectorPlan, entry: number): BlockLists;

  /**
   * How much of a request's KV is in its blocks now, and from which step on the rest will be.
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  extent(request: ConnectorRequest): KvExtent;

  /**
   * Registers that the connector reads or keeps the blocks of a request, for instance for a store
   * of a running request, or a lease. No other request gets these blocks until `complete` is
   * called. While the use lasts, the request is never chosen as a victim of preemption. A forced
   * reset, or a failed step or load, does preempt it, and its blocks stay pinned. After the
   * request's end its blocks stay until every use is over. A worker reports to the scheduler side
   * by its metadata that its part is over.
   * @param kind `store` or `lease`
   * @param owner names the use among those of its kind, for instance a job. `child C rank R` is
   * taken: it names the uses that `requestFinished` began
   * @returns false, and an anomaly is counted, if the handle is stale or the use is registered
   * already
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  hold(handle: number, kind: 'store' | 'lease', owner: string): boolean;

  /**
   * Ends a use that `hold` registered.
   * @returns false, and an anomaly is counted, if there is no such use
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  complete(handle: number, kind: 'store' | 'lease', owner: string): boolean;

  /**
   * Makes the next step that admits anything ask the connector again about a request that waits for
   * it (`Match.wakes`).
   * @returns false if the request does not wait for this. No anomaly is counted: the request may
   * have ended, or been woken before
   * @throws ERR_BLOCKSTEP_BAD_ARG
   */
  wake(handle: number): boolean;

  /**
   * Reports to subscribers of KV cache events that a tier of the connector has stored or removed
   * blocks (vLLM
   * `take_events`). The report decides nothing, and costs nothing without subscribers. It may be
   * called at any time, and is delivered with the next plan.
   * @param hashes the `blockHash` of each block; a block is stored once, until it is removed
   * @param group the KV cache group of the blocks, default the first
   * @throws ERR_BLOCKSTEP_BAD_ARG for another change, medium or group
   */
  tellTier(change: 'stored' | 'removed', medium: TierMedium, hashes: readonly bigint[], group?: number): void;
}
