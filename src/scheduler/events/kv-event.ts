import { badArg, checkOneOf } from '../../base/checks.js';
import { bindMethods } from '../../base/foreign/foreign-method.js';

/** Bytes of the hash of a block. */
export const HASH_BYTES = 16;

/** Where KV lies: the pool of the executor, and the tiers of a connector. vLLM has the same names. */
export type KvMedium = 'GPU' | TierMedium;

/** Where a tier of a connector lies: memory of a host, or what is slower. */
export type TierMedium = 'CPU' | 'STORAGE';

/**
 * What a token needs of the tokens before it, in the layers of a KV cache group. `full`, `mla` (multi-head latent attention) and `sink` (attention
 * with sink tokens): all; `sliding`: the last ones; `chunked`: those of its chunk; `mamba` (and other linear attention): one state.
 */
export type KvGroupType = 'full' | 'mla' | 'sink' | 'sliding' | 'chunked' | 'mamba';

/** Full blocks of one request that follow each other. */
export interface KvBlocksStored {
  readonly type: 'stored';
  readonly medium: KvMedium;
  /** The hashes of the blocks, 16 bytes each, one behind the other. */
  readonly hashes: Uint8Array;
  /** The hash of the block before the first one; null for the first block of a request. Not every group has that block stored: see `firstBlock`. */
  readonly parentHash: Uint8Array | null;
  /**
   * Which block of its text the first one is, from 0: its first token is that of the number `firstBlock * blockSize`. Groups that need not all
   * tokens store not all blocks, so that a parent may never have been stored. Null for blocks of a tier.
   */
  readonly firstBlock: number | null;
  /** The tokens of the blocks, `blockSize` for each; empty for blocks of a tier. */
  readonly tokenIds: Int32Array;
  /** Name of the LoRA adapter whose KV it is; null = none. */
  readonly adapter: string | null;
  /** Salt of the hashes; null = none. */
  readonly cacheSalt: string | null;
  /** True: the blocks were stored before, and a request found them. Only with `report: 'all'`. */
  readonly isReused: boolean;
  /** The KV cache group of the blocks, from 0; a hash is found in its group alone. */
  readonly group: number;
  /** Tokens of a block of the group. */
  readonly blockSize: number;
  /** What the group's layers need (`KvGroupOptions.type`). */
  readonly kind: KvGroupType;
  /** Tokens that a token attends to; null for groups without a window. */
  readonly window: number | null;
}

/** Blocks that can no longer be found. */
export interface KvBlocksRemoved {
  readonly type: 'removed';
  readonly medium: KvMedium;
  /** The hashes of the blocks, 16 bytes each, one behind the other. */
  readonly hashes: Uint8Array;
  /** The KV cache group of the blocks. */
  readonly group: number;
}

/** No block of the pool can be found any more; what tiers have stays, and they tell of it themselves. */
export interface KvBlocksCleared {
  readonly type: 'cleared';
}

/**
 * A change of the prefix cache, told by hash: which hashes can be found, not which blocks have them. A reader that applies the events
 * to an empty set has exactly the hashes that the cache has. In groups of full attention the parent of a block is stored before the block; it may be removed before
 * it too, where KV was lost. In all groups `firstBlock` says where a block stands. The hashes are `Core.native.blockHash`, in little endian.
 * The arrays are the reader's.
 */
export type KvEvent = KvBlocksStored | KvBlocksRemoved | KvBlocksCleared;

/** Who is told of the prefix cache (vLLM `kv_events_config`). */
export interface KvEventSink {
  /**
   * `new` (default): what is stored and removed. `all`: also which stored blocks a request found, for readers that want to know what is
   * used (vLLM `kv_cache_report_mode` full).
   */
  readonly report?: 'new' | 'all';
  /**
   * Called with the events of a step, in their order; not called when there are none. It must not throw, and must not call the
   * scheduler or its engine. If it throws, the anomaly `kv-events-failed` is counted, and these events are lost for it.
   */
  onEvents(events: readonly KvEvent[]): void;
}

/** A checked sink. */
export interface ParsedKvEventSink {
  readonly report: 'new' | 'all';
  /** What the blocks of a scheduler are of that has no KV cache groups. */
  readonly kind: 'full' | 'mla';
  readonly onEvents: (events: readonly KvEvent[]) => unknown;
}

/**
 * @param kind see `ParsedKvEventSink`
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function parseKvEventSink(sink: KvEventSink, kind: ParsedKvEventSink['kind']): ParsedKvEventSink {
  if (typeof sink !== 'object' || sink === null)
    throw badArg('kvEvents', sink, 'an object with a function onEvents');
  return {
    report: checkOneOf('kvEvents.report', sink.report, ['new', 'all']),
    kind,
    onEvents: bindMethods('kvEvents', sink, ['onEvents']).onEvents,
  };
}
