import { badArg, checkOneOf } from '../../base/checks.js';
import { bindMethods } from '../../base/foreign/foreign-method.js';

/** Bytes of the hash of a block. */
export const HASH_BYTES = 16;

/**
 * Where KV is stored: the pool of the executor, and the tiers of a connector. vLLM has the same
 * names.
 */
export type KvMedium = 'GPU' | TierMedium;

/** Where a tier of a connector stores KV: memory of a host, or slower storage. */
export type TierMedium = 'CPU' | 'STORAGE';

/**
 * How much of the preceding tokens a token needs, in the layers of a KV cache group. `full`, `mla`
 * (multi-head latent attention) and `sink` (attention with sink tokens): all tokens. `sliding`: the
 * last tokens. `chunked`: the tokens of its chunk. `mamba` (and other linear attention): one state.
 */
export type KvGroupType = 'full' | 'mla' | 'sink' | 'sliding' | 'chunked' | 'mamba';

/** Consecutive full blocks of one request. */
export interface KvBlocksStored {
  readonly type: 'stored';
  readonly medium: KvMedium;
  /** The hashes of the blocks, 16 bytes each, concatenated. */
  readonly hashes: Uint8Array;
  /**
   * The hash of the block before the first; null for the first block of a request. Not every group
   * has that block stored: see `firstBlock`.
   */
  readonly parentHash: Uint8Array | null;
  /**
   * The index of the first of these blocks in its text, from 0: its first token has the index
   * `firstBlock * blockSize`. Groups that need not all tokens store not all blocks, so that a
   * parent may never have been stored. Null for blocks of a tier.
   */
  readonly firstBlock: number | null;
  /** The tokens of the blocks, `blockSize` for each; empty for blocks of a tier. */
  readonly tokenIds: Int32Array;
  /** Name of the LoRA adapter of the KV; null = none. */
  readonly adapter: string | null;
  /** Salt of the hashes; null = none. */
  readonly cacheSalt: string | null;
  /** True: the blocks were stored before, and a request found them. Only with `report: 'all'`. */
  readonly isReused: boolean;
  /** The KV cache group of the blocks, from 0. A hash is found only in its group. */
  readonly group: number;
  /** Tokens per block of the group. */
  readonly blockSize: number;
  /** The type of the group's layers (`KvGroupOptions.type`). */
  readonly kind: KvGroupType;
  /** Tokens that a token attends to; null for groups without a window. */
  readonly window: number | null;
}

/** Blocks that can no longer be found. */
export interface KvBlocksRemoved {
  readonly type: 'removed';
  readonly medium: KvMedium;
  /** The hashes of the blocks, 16 bytes each, concatenated. */
  readonly hashes: Uint8Array;
  /** The KV cache group of the blocks. */
  readonly group: number;
}

/**
 * No block of the pool can be found any more. Tiers keep their content, and report its changes
 * themselves.
 */
export interface KvBlocksCleared {
  readonly type: 'cleared';
}

/**
 * A change of the prefix cache, by hash: the events say which hashes can be found, and not which
 * blocks have them. A reader that applies the events to an empty set has exactly the hashes of the
 * cache. In groups of full attention the parent of a block is stored before the block. It may also
 * be removed before the block, if KV was lost. In all groups `firstBlock` gives the position of a
 * block. The hashes are `Core.native.blockHash`, in little endian. The arrays belong to the reader.
 */
export type KvEvent = KvBlocksStored | KvBlocksRemoved | KvBlocksCleared;

/** A subscriber of prefix cache changes (vLLM `kv_events_config`). */
export interface KvEventSink {
  /**
   * `new` (default): stored and removed blocks. `all`: also stored blocks that a request found, for
   * readers that track usage (vLLM `kv_cache_report_mode` full).
   */
  readonly report?: 'new' | 'all';
  /**
   * Called with the events of a step, in their order; not called when there are none. It must not
   * throw, and must not call the scheduler or its engine. If it throws, the anomaly
   * `kv-events-failed` is counted, and these events are lost for it.
   */
  onEvents(events: readonly KvEvent[]): void;
}

/** A checked sink. */
export interface ParsedKvEventSink {
  readonly report: 'new' | 'all';
  /** The type of the blocks of a scheduler without KV cache groups. */
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
