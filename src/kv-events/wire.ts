import {
  HASH_BYTES,
  type KvBlocksStored,
  type KvEvent,
  type KvGroupType,
} from '../scheduler/events/kv-event.js';
import type { ParsedPublisherOptions } from './options.js';

/** A hash on the wire: bytes, the most significant first, or the last eight bytes as a number. */
type WireHash = Uint8Array | bigint;

/** The input of the MessagePack encoder. */
export type WireBatch = readonly [ts: number, events: readonly unknown[], dataParallelRank: number];

/** vLLM's names for the types of KV cache groups. */
const KINDS: Readonly<Record<KvGroupType, string>> = {
  full: 'full_attention',
  mla: 'mla_attention',
  sink: 'sink_full_attention',
  sliding: 'sliding_window',
  chunked: 'chunked_local_attention',
  mamba: 'mamba',
};

/**
 * A batch of events as vLLM publishes it (`KVEventBatch` in vllm/distributed/kv_events.py): an
 * array of the time in seconds, the events, and the rank. The map form names the fields and has
 * `type`. The array form is the form before 0.26 (vLLM #42892).
 */
export function wireBatch(
  events: readonly KvEvent[],
  seconds: number,
  { eventFormat, hashFormat, dataParallelRank }: ParsedPublisherOptions,
): WireBatch {
  const asMap = eventFormat === 'map';
  const asHash = hashFormat === 'int' ? asInteger : asBytes;
  return [seconds, events.map((event) => wireEvent(event, asMap, asHash)), dataParallelRank];
}

function wireEvent(event: KvEvent, asMap: boolean, asHash: (hash: Uint8Array) => WireHash): unknown {
  const [type, fields] = fieldsOf(event, asHash);
  if (!asMap) return [type, ...Object.values(fields)];
  // vLLM has no such field. The array form identifies fields by position, and has no position for
  // it.
  const place = event.type === 'stored' && event.firstBlock !== null && { first_block_idx: event.firstBlock };
  return { type, ...fields, ...place };
}

function fieldsOf(event: KvEvent, asHash: (hash: Uint8Array) => WireHash): [string, Record<string, unknown>] {
  if (event.type === 'cleared') return ['AllBlocksCleared', {}];
  const block_hashes = hashesOf(event.hashes, asHash);
  const { medium } = event;
  if (event.type === 'removed') return ['BlockRemoved', { block_hashes, medium, group_idx: event.group }];
  // In the order of the array form. Fields behind `lora_name` are left out when they have no value.
  const stored = {
    block_hashes,
    parent_block_hash: event.parentHash === null ? null : asHash(event.parentHash),
    // A typed array would be encoded as bytes.
    token_ids: Array.from(event.tokenIds),
    // A tier does not know the tokens.
    block_size: event.tokenIds.length === 0 ? 0 : event.blockSize,
    lora_id: null,
    medium,
    lora_name: event.adapter,
    extra_keys: extraKeys(event, block_hashes.length),
  };
  const ofGroup = { group_idx: event.group, kv_cache_spec_kind: KINDS[event.kind] };
  const window = event.window === null ? {} : { kv_cache_spec_sliding_window: event.window };
  return ['BlockStored', { ...stored, ...ofGroup, ...window }];
}

function hashesOf(bytes: Uint8Array, asHash: (hash: Uint8Array) => WireHash): WireHash[] {
  return Array.from({ length: bytes.length / HASH_BYTES }, (_, i) =>
    asHash(bytes.subarray(i * HASH_BYTES, (i + 1) * HASH_BYTES)),
  );
}

/**
 * The content of each block's hash beside tokens: the adapter in every block, the salt in a
 * request's first block.
 */
function extraKeys(
  { parentHash, adapter, cacheSalt }: KvBlocksStored,
  numBlocks: number,
): (string[] | null)[] {
  return Array.from({ length: numBlocks }, (_, i) => {
    const keys = [
      ...(adapter === null ? [] : [adapter]),
      ...(cacheSalt === null || parentHash !== null || i > 0 ? [] : [cacheSalt]),
    ];
    return keys.length === 0 ? null : keys;
  });
}

function asBytes(hash: Uint8Array): Uint8Array {
  return Uint8Array.from(hash).reverse();
}

function asInteger(hash: Uint8Array): bigint {
  return new DataView(hash.buffer, hash.byteOffset, 8).getBigUint64(0, true);
}
