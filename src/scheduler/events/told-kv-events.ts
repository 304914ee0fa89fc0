import type { Anomalies } from '../../base/anomalies.js';
import { describeError } from '../../base/errors.js';
import { Control, type Core } from '../../core/core.js';
import type { Request } from '../request/request.js';
import type { KvEvent, TakenKvEventSink } from './kv-event.js';
import { type HashNames, readKvEvents } from './kv-event-words.js';

const NO_NAMES: HashNames = { adapter: null, cacheSalt: null };

/** The one place that calls the sink of KV cache events. What the sink throws is counted, and costs nothing else. */
export class ToldKvEvents {
  readonly #sink: TakenKvEventSink;
  readonly #core: Core;
  readonly #anomalies: Anomalies;
  /** Requests whose hashes depend on more than their tokens, by handle, until nothing more can be told of them. */
  readonly #names = new Map<number, HashNames>();

  constructor(sink: TakenKvEventSink, core: Core, anomalies: Anomalies) {
    this.#sink = sink;
    this.#core = core;
    this.#anomalies = anomalies;
  }

  /** Notes a new request. */
  added({ handle, adapter, cacheSalt }: Request): void {
    if (adapter === '' && cacheSalt === '') return;
    this.#names.set(handle, { adapter: adapter || null, cacheSalt: cacheSalt || null });
  }

  /**
   * Tells what has happened since the last call.
   * @param ended handles of requests that have ended since then
   * @param ofTiers what the connector tells of its tiers; comes last
   */
  tell(ended: readonly number[], ofTiers: readonly KvEvent[] = []): void {
    this.#core.flush();
    const has = this.#core.control[Control.kvEventWords] !== 0;
    if (has || ofTiers.length > 0) this.#call([...(has ? this.#read() : []), ...ofTiers]);
    if (this.#names.size > 0) for (const handle of ended) this.#names.delete(handle);
  }

  #read(): KvEvent[] {
    const { native, config } = this.#core;
    return readKvEvents(
      native.takeKvEvents(),
      config.blockSize,
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
