// The answers of the page's routes, as types for both sides.
import type { EngineStats } from '../../engine/inspect/engine-stats.js';
import type { GroupHolding } from '../../scheduler/inspect/group-stats.js';

/** The health of a server, as its health check and its page report it. */
export interface ServerHealth {
  /** Whether there are no reasons against it. */
  readonly healthy: boolean;
  readonly state: 'open' | 'draining' | 'broken' | 'disposed';
  /** Why the server is not healthy, in words; empty if it is healthy. */
  readonly reasons: readonly string[];
  /** Milliseconds since the last step was answered; null before the first step. */
  readonly sinceStepMs: number | null;
}

/** The figures of one moment. Counts are totals since the start of the engine. */
export interface Sample {
  /** Unix time in milliseconds. No two samples have the same time. */
  readonly time: number;
  /** The duration of steps since the previous sample, in milliseconds; null if there was none. */
  readonly p50: number | null;
  readonly p99: number | null;
  readonly running: number;
  readonly waiting: number;
  /** Requests that wait for KV to be loaded. */
  readonly loading: number;
  /** Generated tokens, a count. */
  readonly generated: number;
  /** Tokens that were looked up in the prefix cache, and tokens that were found: counts. */
  readonly queries: number;
  readonly hits: number;
  /** The used share of the pool, 0 to 1. */
  readonly usage: number;
  /** The longest delay of the event loop since the previous sample, in milliseconds. */
  readonly loopDelayMs: number;
}

/** The response of `GET /figures`. */
export interface Figures {
  readonly model: string;
  readonly version: string;
  /** Whether the server has the routes behind the page's controls. */
  readonly control: boolean;
  readonly numBlocks: number;
  /**
   * Blocks that can be used: all but the null block and the permanent blocks of attention sinks.
   */
  readonly usableBlocks: number;
  readonly blockSize: number;
  readonly health: ServerHealth;
  readonly paused: 'none' | 'new' | 'all';
  /** The duration of the steps of the last ten seconds, in milliseconds; null if there was none. */
  readonly step: { readonly p50: number | null; readonly p99: number | null };
  /** Figures that only the newest sample has; null if the engine no longer has statistics. */
  readonly present: Present | null;
  /** The samples after the given time, the oldest first; at most those of the last five minutes. */
  readonly samples: readonly Sample[];
}

/** Gauges and counts that are shown without their history. */
export interface Present {
  readonly freeBlocks: number;
  readonly cachedBlocks: number;
  readonly quarantinedBlocks: number;
  /** The blocks of each KV cache group; one group without `kvGroups`. */
  readonly groups: EngineStats['scheduler']['groups'];
  readonly outstanding: EngineStats['scheduler']['outstanding'];
  readonly anomalies: EngineStats['scheduler']['anomalies'];
  readonly steps: number;
  readonly preemptions: number;
}

/** The response of `GET /blocks/ID`. */
export interface BlockFacts {
  readonly block: number;
  /** Ids of the requests that hold the block; at most 20. */
  readonly holders: readonly string[];
  /** The number of requests that hold the block. */
  readonly numHolders: number;
}

/** A request of the engine, as listed for operators. */
export interface ListedRequest {
  /** Its id in the engine: the id of the reply, and the index of the choice. */
  readonly id: string;
  /** `running`, or the reason why the request waits. */
  readonly state: string;
  readonly output_tokens: number;
  /** A description of the wait or the progress; absent with `explain=false`. */
  readonly explain?: string;
}

/** The response of `GET /requests`. */
export interface RequestList {
  readonly requests: readonly ListedRequest[];
  /** The number of requests that match. */
  readonly total: number;
}

/** The response of `GET /requests/ID`. */
export interface RequestFacts extends ListedRequest {
  readonly explain: string;
  readonly prompt_tokens: number;
  readonly max_tokens: number;
  /** Tokens whose KV is computed, cached ones included. */
  readonly computed_tokens: number;
  /** Tokens that the prefix cache had at the last admission; null before the first. */
  readonly cached_tokens: number | null;
  readonly priority: number;
  readonly preemptions: number;
  /** The blocks that the request holds in each KV cache group. */
  readonly groups: readonly GroupHolding[];
  /** Ids of the blocks that the request holds, in the order of its tokens, group after group. */
  readonly blocks: readonly number[];
}
