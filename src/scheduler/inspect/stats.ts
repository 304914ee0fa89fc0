import { heldBlocks } from '../../core/rows.js';
import type { OutstandingKind } from '../request/outstanding.js';
import type { Request } from '../request/request.js';
import { type FinishReason, finishReasonOf } from '../request/status.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { type GroupStats, readGroupStats } from './group-stats.js';

/** A snapshot of a scheduler's statistics as plain data. Events are counted since the start. */
export interface SchedulerStats {
  /** Steps scheduled so far. */
  step: number;
  /** Requests that have a place in steps. */
  numRunning: number;
  /** Requests that can be admitted as soon as they fit. */
  numWaiting: number;
  /** Requests that wait for an external event, or were passed over. */
  numSkipped: number;
  /** Sessions that wait for their next chunk; they count as skipped requests. */
  numIdleSessions: number;
  /**
   * Requests that have a load, in progress or done and not promoted yet; they count as skipped
   * requests.
   */
  numLoading: number;
  /** Finished requests whose blocks are still used by something whose end is awaited. */
  numDraining: number;
  /** Finished requests whose blocks are in use without an awaited end. */
  numQuarantined: number;
  /** Blocks that the quarantined requests hold. */
  quarantinedBlocks: number;
  /** Uses of blocks besides requests, by kind. */
  outstanding: Record<
    OutstandingKind,
    {
      /** Uses that are not over. */
      count: number;
      /** Age of the oldest of these uses, in milliseconds of the scheduler's clock; 0 if there is none. */
      oldestMs: number;
    }
  >;
  /** Plans with tokens that were scheduled and not updated yet. */
  stepsInFlight: number;
  /** Used fraction of the pool, 0 to 1. The permanent blocks of sinks are not part of the pool. */
  kvCacheUsage: number;
  /** Blocks that can be taken, cached ones included. */
  freeBlocks: number;
  /** Blocks that carry a hash, free ones included. */
  cachedBlocks: number;
  /** The blocks of each KV cache group; one group without `kvGroups`. */
  groups: GroupStats[];
  /** Rows of the KV slot table that requests hold. */
  rowsInUse: number;
  /** Admissions that looked up the prefix cache, of requests that were never preempted. */
  prefixCacheRequests: number;
  /** Tokens of the requests in these admissions. */
  prefixCacheQueries: number;
  /** Of these tokens, those found in the prefix cache. */
  prefixCacheHits: number;
  /** Admissions that looked up the prefix cache, of requests that were preempted before. */
  preemptedRequests: number;
  /** Tokens of the requests in these admissions. */
  preemptedQueries: number;
  /** Of these tokens, those found in the prefix cache. */
  preemptedHits: number;
  /** Times that a running request lost its blocks and had to be computed again. */
  numPreemptions: number;
  /** Cached blocks that were reused for other content. */
  evictions: number;
  /** Admissions put off because no row of the KV slot table was free. */
  rowStalls: number;
  /**
   * Prompt tokens. Each request's tokens are counted with its first step, and each chunk's when the
   * chunk begins.
   */
  promptTokens: number;
  /** Of these tokens, those found in the prefix cache. */
  promptTokensCached: number;
  /** Of these tokens, those that a connector has loaded. */
  promptTokensLoaded: number;
  /** Generated tokens. */
  generationTokens: number;
  /** Entries of steps in flight whose output was dropped because the request had ended or was reset meanwhile. */
  droppedOutputs: number;
  /** Entries whose drafts were verified. */
  specDrafts: number;
  /** Draft tokens that were verified. */
  specDraftTokens: number;
  /** Draft tokens that were accepted. */
  specAcceptedTokens: number;
  /** Answers to a chunk that ended while their session went on. */
  sessionChunks: number;
  /**
   * How often blocks were reclaimed from a session that was not running, because they were needed
   * elsewhere.
   */
  sessionsReclaimed: number;
  /** Requests that ended because they waited in the queue for too long (`deadlines.queue`). */
  queueTimeouts: number;
  /** Requests that ended because they took longer than their `timeoutMs`. */
  requestTimeouts: number;
  /** Sessions that ended because no chunk came for too long (`deadlines.streamingInput`). */
  streamingInputTimeouts: number;
  /** Requests that ended because their grammar was not ready in time (`deadlines.grammar`). */
  grammarTimeouts: number;
  /** Requests that ended because their grammar did not accept the generated tokens. */
  grammarRejections: number;
  /**
   * Requests that ended because their load, or their connector's answer about it, took too long
   * (`deadlines.load`).
   */
  loadTimeouts: number;
  /** Loads that failed, wholly or in part. */
  failedLoads: number;
  /**
   * How often a request that did not run yet lost its loaded blocks, because otherwise nothing
   * could run.
   */
  loadsReclaimed: number;
  /** Times that the blocks of a finished request were quarantined. */
  quarantines: number;
  /** Tokens about which a connector was asked, at admissions. */
  externalQueries: number;
  /** Tokens that a connector has loaded. */
  externalHits: number;
  /**
   * Matches of a connector that were refused, because steps must end at the end of a block
   * (`kvGroups` with Mamba in mode `align`).
   */
  refusedMatches: number;
  /** Requests that ended, by finish reason. */
  finished: Record<FinishReason, number>;
  /** Events that a correct peer would not send, by reason. */
  anomalies: Record<string, number>;
}

/**
 * Reads the statistics. Every gauge is derived from the present state. The cost grows with the uses
 * of blocks by transfers and with the quarantined blocks, and not with the number of requests. With
 * `kvGroups` it also grows with the pool and with the rows of all requests.
 */
export function readStats(s: SchedulerState): SchedulerStats {
  const { finished, ...counts } = s.counters;
  const byReason = { stop: 0, length: 0, abort: 0, error: 0 };
  for (let code = 1; code < finished.length; code++) {
    byReason[finishReasonOf(code) as FinishReason] = finished[code];
  }
  return {
    step: s.step,
    numRunning: s.queues.running.length,
    numWaiting: s.queues.waiting.length,
    numSkipped: s.queues.numSkipped,
    numIdleSessions: s.queues.idle.size,
    numLoading: s.withLoad.size,
    numDraining: s.draining.size,
    numQuarantined: s.quarantined.size,
    quarantinedBlocks: numBlocksOf(s, s.quarantined),
    outstanding: readOutstanding(s),
    stepsInFlight: s.inFlight.length,
    kvCacheUsage: s.core.usage,
    freeBlocks: s.core.freeBlocks,
    cachedBlocks: s.core.publishedBlocks,
    groups: readGroupStats(s),
    rowsInUse: s.core.rowsInUse,
    ...counts,
    evictions: s.core.evictions,
    finished: byReason,
    anomalies: s.anomalies.toObject(),
  };
}

function numBlocksOf(s: SchedulerState, requests: Iterable<Request>): number {
  const blocks = new Set<number>();
  for (const { slot, keptBlocks } of requests) {
    for (const id of heldBlocks(s.core, slot)) blocks.add(id);
    for (const id of keptBlocks ?? []) blocks.add(id);
  }
  return blocks.size;
}

function readOutstanding(s: SchedulerState): SchedulerStats['outstanding'] {
  const none = { count: 0, oldestMs: 0 };
  const all = { load: { ...none }, store: { ...none }, lease: { ...none } };
  for (const { outstanding } of s.usedRequests) {
    for (const { kind, since } of outstanding?.uses() ?? []) {
      all[kind].count++;
      all[kind].oldestMs = Math.max(all[kind].oldestMs, s.now - since);
    }
  }
  return all;
}
