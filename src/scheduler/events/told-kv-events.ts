import type { Anomalies } from '../../base/anomalies.js';
import { describeError } from '../../base/errors.js';
import { Control, type Core } from '../../core/core.js';
import type { Request } from '../request/request.js';
import { HASH_BYTES, type KvEvent, type ParsedKvEventSink, type TierMedium } from './kv-event.js';
import { type EventGroup, type HashNames, readKvEvents } from './kv-event-words.js';

const NOBODY: readonly number[] = [];
const NO_NAMES: HashNames = { adapter: null, cacheSalt: null };

/** A tier knows only hashes, and not what they were computed from. */
const OF_A_TIER = {
  parentHash: null,
  firstBlock: null,
  tokenIds: new Int32Array(0),
  ...NO_NAMES,
  isReused: false,
} as const;

/**
 * The only place that calls the sink of KV cache events. An error of the sink is counted, and has
 * no other effect.
 */
export class ToldKvEvents {
  readonly #sink: ParsedKvEventSink;
  readonly #core: Core;
  readonly #anomalies: Anomalies;
  /**
   * Requests whose hashes depend on more than their tokens, by handle, until no more events about
   * them can come.
   */
  readonly #names = new Map<number, HashNames>();
  /** Blocks that tiers of the connector have stored and removed since the last call, in order. */
  #ofTiers: KvEvent[] = [];

  readonly #groups: readonly EventGroup[];

  /** @param groups the KV cache groups, in their order */
  constructor(sink: ParsedKvEventSink, core: Core, anomalies: Anomalies, groups: readonly EventGroup[]) {
    this.#groups = groups;
    this.#sink = sink;
    this.#core = core;
    this.#anomalies = anomalies;
  }

  /** Notes a new request. */
  added({ handle, adapter, cacheSalt }: Request): void {
    if (adapter === '' && cacheSalt === '') return;
    this.#names.set(handle, { adapter: adapter || null, cacheSalt: cacheSalt || null });
  }

  /** Notes blocks that a tier has stored or removed. */
  tier(type: 'stored' | 'removed', medium: TierMedium, hashes: readonly bigint[], group: number): void {
    if (hashes.length === 0) return;
    const bytes = hashBytes(hashes);
    this.#ofTiers.push(
      type === 'removed'
        ? { type, medium, hashes: bytes, group }
        : { ...OF_A_TIER, ...this.#groups[group], group, type, medium, hashes: bytes },
    );
  }

  /**
   * Reports the events since the last call.
   * @param ended handles of requests that have ended since then
   */
  tell(ended: readonly number[] = NOBODY): void {
    this.#core.flush();
    const has = this.#core.control[Control.kvEventWords] !== 0;
    const ofTiers = this.#ofTiers;
    if (ofTiers.length > 0) this.#ofTiers = [];
    if (has || ofTiers.length > 0) this.#call([...(has ? this.#read() : []), ...ofTiers]);
    if (this.#names.size > 0) for (const handle of ended) this.#names.delete(handle);
  }

  /** Whether a tier has stored or removed something since the last call of `tell`. */
  get hasTierNews(): boolean {
    return this.#ofTiers.length > 0;
  }

  #read(): KvEvent[] {
    const { native } = this.#core;
    return readKvEvents(
      native.drainKvEvents(),
      this.#groups,
      (handle) => this.#names.get(handle) ?? NO_NAMES,
    );
  }

  #call(events: readonly KvEvent[]): void {
    try {
      this.#sink.onEvents(events);
    } catch (error) {
      this.#anomalies.report('kv-events-failed', `kvEvents.onEvents: ${describeError(error)}`);
    }
  }
}

function hashBytes(hashes: readonly bigint[]): Uint8Array {
  const bytes = new Uint8Array(hashes.length * HASH_BYTES);
  const view = new DataView(bytes.buffer);
  for (const [i, hash] of hashes.entries()) {
    view.setBigUint64(i * HASH_BYTES, hash, true);
    view.setBigUint64(i * HASH_BYTES + 8, hash >> 64n, true);
  }
  return bytes;
}
