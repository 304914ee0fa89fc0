import type { OutstandingKind } from '../request/outstanding.js';
import type { Request } from '../request/request.js';
import { type FinishReason, finishReasonOf } from '../request/status.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/** A snapshot as plain data. Counts of events are since the start; tokens unless said otherwise. */
export interface SchedulerStats {
  /** Steps scheduled so far. */
  step: number;
  numRunning: number;
  numWaiting: number;
  numSkipped: number;
  /** Sessions that wait for their next chunk; they are among the skipped. */
  numIdleSessions: number;
  /** Requests that wait for KV to be loaded; they are among the skipped. */
  numLoading: number;
  /** Finished requests whose blocks something still uses. */
  numDraining: number;
  /** Finished requests whose blocks nobody waits for any more, and the blocks that they hold. */
  numQuarantined: number;
  quarantinedBlocks: number;
  /** What uses blocks besides requests: how many uses, and the age of the oldest in milliseconds. */
  outstanding: Record<OutstandingKind, { count: number; oldestMs: number }>;
  /** Plans scheduled and not updated yet. */
  stepsInFlight: number;
  /** Fraction of the pool in use, 0 to 1. */
  kvCacheUsage: number;
  freeBlocks: number;
  /** Blocks that carry a hash, free ones included. */
  cachedBlocks: number;
  rowsInUse: number;
  /** First admissions, the tokens they asked the prefix cache for, and those it had. */
  prefixCacheRequests: number;
  prefixCacheQueries: number;
  prefixCacheHits: number;
  /** The same for admissions after a preemption. */
  preemptedRequests: number;
  preemptedQueries: number;
  preemptedHits: number;
  numPreemptions: number;
  /** Cached blocks that were reused for other content. */
  evictions: number;
  /** Admissions put off because no row of the KV slot table was free. */
  rowStalls: number;
  promptTokens: number;
  generationTokens: number;
  /** Entries of steps in flight whose output was dropped because the request had ended or was reset meanwhile. */
  droppedOutputs: number;
  specDrafts: number;
  specDraftTokens: number;
  specAcceptedTokens: number;
  /** Answers that ended while their session went on. */
  sessionChunks: number;
  /** Times that a session that did not run lost its blocks to somebody else. */
  sessionsReclaimed: number;
  /** Requests that ended because they stood in the queue for too long (`deadlines.queue`). */
  queueTimeouts: number;
  /** Requests that ended because they took longer than their `timeoutMs`. */
  requestTimeouts: number;
  /** Requests that ended because nothing came for too long. */
  streamingInputTimeouts: number;
  grammarTimeouts: number;
  /** Requests that ended because their grammar did not accept what was generated. */
  grammarRejections: number;
  /** Requests that ended because their load took too long. */
  loadTimeouts: number;
  /** Loads of which something did not come. */
  failedLoads: number;
  /** Times that a request which did not run yet lost what was loaded for it, because otherwise nothing could run. */
  loadsReclaimed: number;
  /** Times that the blocks of a finished request were given up. */
  quarantines: number;
  /** Tokens that a connector was asked for, and those that it was to bring. */
  externalQueries: number;
  externalHits: number;
  /** Requests by finish reason. */
  finished: Record<FinishReason, number>;
  /** Events that a correct peer would not send, by reason. */
  anomalies: Record<string, number>;
}

/**
 * Reads the statistics; every gauge is derived from the state at this moment. What it costs grows with the uses of blocks by
 * transfers and with the quarantined blocks, not with the requests.
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
    for (const id of s.core.blocks(slot)) blocks.add(id);
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
