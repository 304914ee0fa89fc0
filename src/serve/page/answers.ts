// The answers of the page's routes, as types for both sides.
import type { EngineStats } from '../../engine/inspect/engine-stats.js';
import type { GroupHolding } from '../../scheduler/inspect/group-stats.js';

/** How a server is, as its health check and its page say it. */
export interface ServerHealth {
  /** Whether there are no reasons. */
  readonly healthy: boolean;
  readonly state: 'open' | 'draining' | 'broken' | 'disposed';
  /** Why it is not healthy, in words; empty if it is. */
  readonly reasons: readonly string[];
  /** Milliseconds since the last step was answered; null before the first one. */
  readonly sinceStepMs: number | null;
}

/** The figures of one moment. Counts have grown since the start of the engine. */
export interface Sample {
  /** When, in milliseconds of Unix time; no two samples have the same. */
  readonly time: number;
  /** Milliseconds that a step took, of the steps since the sample before; null if there was none. */
  readonly p50: number | null;
  readonly p99: number | null;
  readonly running: number;
  readonly waiting: number;
  /** Requests that wait for KV to be loaded. */
  readonly parked: number;
  /** Generated tokens, a count. */
  readonly generated: number;
  /** Tokens that the prefix cache was asked for, and had: counts. */
  readonly queries: number;
  readonly hits: number;
  /** The part of the pool that is in use, 0 to 1. */
  readonly usage: number;
  /** The longest time by which the event loop was late since the sample before, in milliseconds. */
  readonly loopDelayMs: number;
}

/** What `GET /figures` answers. */
export interface Figures {
  readonly model: string;
  readonly version: string;
  /** Whether the server has the routes by which the page acts. */
  readonly control: boolean;
  readonly numBlocks: number;
  /** Blocks that can be in use: all but the null block and those that sinks hold for good. */
  readonly usableBlocks: number;
  readonly blockSize: number;
  readonly health: ServerHealth;
  readonly paused: 'none' | 'new' | 'all';
  /** Of the steps of the last ten seconds, in milliseconds; null if there was none. */
  readonly step: { readonly p50: number | null; readonly p99: number | null };
  /** What stands only in the newest sample; null if the engine can say nothing more. */
  readonly present: Present | null;
  /** Samples behind the one that was asked for, the oldest first; of the last five minutes at most. */
  readonly samples: readonly Sample[];
}

/** Gauges and counts that are shown without their past. */
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

/** What `GET /blocks/ID` answers. */
export interface BlockFacts {
  readonly block: number;
  /** Requests that hold it, by their ids; at most 20. */
  readonly holders: readonly string[];
  /** How many hold it. */
  readonly numHolders: number;
}

/** One request of the engine, as operators see it in a list. */
export interface ListedRequest {
  /** Its id in the engine: that of the reply, and the index of the choice. */
  readonly id: string;
  /** What it does: `running`, or what it waits for. */
  readonly state: string;
  readonly output_tokens: number;
  /** What it waits for, or how far it is, in words; absent with `explain=false`. */
  readonly explain?: string;
}

/** What `GET /requests` answers. */
export interface RequestList {
  readonly requests: readonly ListedRequest[];
  /** How many there are that match. */
  readonly total: number;
}

/** What `GET /requests/ID` answers. */
export interface RequestFacts extends ListedRequest {
  readonly explain: string;
  readonly prompt_tokens: number;
  readonly max_tokens: number;
  /** Tokens whose KV is computed, cached ones included. */
  readonly computed_tokens: number;
  /** Tokens that the prefix cache had at the last admission; null before it. */
  readonly cached_tokens: number | null;
  readonly priority: number;
  readonly preemptions: number;
  /** What it holds in each KV cache group. */
  readonly groups: readonly GroupHolding[];
  /** Ids of the blocks that it holds, in the order of its tokens, group after group. */
  readonly blocks: readonly number[];
}
