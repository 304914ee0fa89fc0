import { channels } from '../../base/channels.js';
import { PendingOp } from '../../core/core.js';
import { boundaryGuards } from '../lend/boundary-guards.js';
import { isLoading } from '../request/load.js';
import type { Request } from '../request/request.js';
import { FinishCode, type FinishReason, finishReasonOf } from '../request/status.js';
import { keepTokens } from '../state/kept-tokens.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { handOver } from './hand-over.js';
import { leaveLoading } from './loading.js';
import { fenceBlocks, giveKeptBack, giveRowBack } from './preempt.js';

/**
 * Ends a request: the only exit, from every state. The first reason counts; a second call does
 * nothing.
 *
 * The request leaves its container. Its blocks are freed unless a transfer still uses them. The
 * next plan reports its id.
 * @returns whether the request ended now
 */
export function finish(s: SchedulerState, request: Request, reason: FinishCode): boolean {
  if (request.isFinished) return false;
  s.queues.remove(request);
  // A session may still carry the stop token of an earlier answer. No token caused this end, so the
  // stop token is cleared (as in vLLM's row of a failed load).
  if (reason !== FinishCode.abort) request.stopReason = null;
  end(s, request, reason);
  return true;
}

/** Ends a request outside an update. Its terminal row is published with the next update. */
export function endUnreported(s: SchedulerState, request: Request, reason: FinishCode): void {
  if (finish(s, request, reason)) s.unreported.push(request);
}

/**
 * Like `finish`, for many requests in one pass: the request is only marked as gone from `running`.
 * The caller must call
 * `s.queues.dropDetached()` afterwards.
 */
export function finishDetached(s: SchedulerState, request: Request, reason: FinishCode): boolean {
  if (request.isFinished) return false;
  s.queues.detach(request);
  end(s, request, reason);
  return true;
}

/**
 * Call this after a use of a request's blocks has ended. When the last load has ended, an
 * unfinished request may be admitted again. When no use of any kind is left, the blocks that a
 * preemption kept pinned are freed. A finished request then releases all its blocks and its slot.
 */
export function releaseIfDrained(s: SchedulerState, request: Request): void {
  if (request.load !== null && !isLoading(request)) {
    // The load is complete. From now on only the scheduler delays the request, so the deadline ends
    // here.
    s.deadlines.stop(request);
    s.queues.unparkLoading(request);
  }
  if (request.outstanding !== null && request.outstanding.size > 0) return;
  s.usedRequests.delete(request);
  s.queues.offer(request);
  giveKeptBack(s, request);
  if (!request.isFinished || s.bySlot[request.slot] !== request) return;
  s.deadlines.stop(request);
  const wasKept = s.draining.delete(request) || s.quarantined.delete(request);
  request.isGone = wasKept && s.connector?.protection.includes('own') === true;
  s.drainingRows.delete(request);
  s.bySlot[request.slot] = undefined;
  fenceBlocks(s, request);
  s.core.push(PendingOp.close, request.slot, 0);
}

/**
 * Stops waiting for the transfers that still use a finished request's blocks, and asks the
 * connector to stop sending them. The blocks stay out of use until a late report comes, or until
 * `fenceTransfers` states that no transfer touches them. The request's row is free again at once.
 */
export function quarantine(s: SchedulerState, request: Request): void {
  s.draining.delete(request);
  s.quarantined.add(request);
  giveRowBack(s, request);
  s.counters.quarantines++;
  if (request.outstanding?.hasPeer('store', undefined)) stopSending(s, request);
}

/**
 * Asks the connector, once per request, to stop sending the blocks of a finished request. The
 * blocks stay taken until the connector has reported (vLLM #25067). Freeing them at once, as vLLM
 * #35506 proposes, would free blocks that are still being read.
 */
export function stopSending(s: SchedulerState, request: Request): void {
  if (!request.cancelled) s.connector?.tellCancel(request);
  request.cancelled = true;
}

/**
 * Restarts the deadline of a transfer whose peer is alive. That is the load deadline of an
 * unfinished request that is loading, or the reclaim deadline of a finished request. A quarantined
 * request goes back to `draining`.
 */
export function renewDeadline(s: SchedulerState, request: Request): void {
  const { load, reclaim } = s.config.deadlines;
  if (!request.isFinished && !s.queues.loading.has(request)) return;
  const timeout = request.isFinished ? reclaim : load;
  if (s.quarantined.delete(request)) s.draining.add(request);
  s.deadlines.stop(request);
  if (timeout > 0) s.deadlines.limitWait(request, s.now + timeout);
  if (!request.isFinished) request.waitingSince = s.now;
}

/** Keeps a finished request until the transfers that use its blocks have ended, for at most the reclaim deadline. */
function drain(s: SchedulerState, request: Request): void {
  const { reclaim } = s.config.deadlines;
  s.draining.add(request);
  s.drainingRows.add(request);
  if (reclaim > 0) s.deadlines.limitWait(request, s.now + reclaim);
}

function end(s: SchedulerState, request: Request, reason: FinishCode): void {
  keepTokens(s, request);
  request.finishCode = reason;
  request.status = 'FINISHED';
  request.finishedAt = s.now;
  request.endedStep = s.step - 1;
  request.numDraftTokens = 0;
  request.session?.close();
  s.deadlines.stopAll(request);
  s.structured.delete(request);
  s.failedGrammars.delete(request);
  s.prefills.delete(request);
  s.requests.delete(request.id);
  s.backlog.leave(request, s.now, false);
  s.blocksMoved = true;
  s.borrower?.noteEnded(request);
  handOver(s, request, reason);
  leaveLoading(s, request);
  s.finishedIds.push(request.id);
  s.finishedHandles.push(request.handle);
  s.counters.finished[reason]++;
  if (request.outstanding === null || request.outstanding.size === 0) releaseIfDrained(s, request);
  else drain(s, request);
  if (channels.finish.hasSubscribers) publishEnd(request, reason);
}

function publishEnd(request: Request, reason: FinishCode): void {
  const { id, handle, numOutputTokens, addedAt, firstScheduledAt, firstTokenAt, finishedAt } = request;
  const since = (at: number): number | null => (at < 0 ? null : at - addedAt);
  channels.finish.publish({
    id,
    handle,
    reason: finishReasonOf(reason) as FinishReason,
    numOutputTokens,
    firstScheduledMs: since(firstScheduledAt),
    firstTokenMs: since(firstTokenAt),
    endedMs: finishedAt - addedAt,
  });
}

/**
 * Ends several requests, in order, in one pass over the queues (vLLM `finish_requests`).
 * @returns external ids of the requests that ended now
 */
export function finishAll(s: SchedulerState, requests: Iterable<Request>, reason: FinishCode): string[] {
  const ended: string[] = [];
  for (const request of requests) {
    if (finishDetached(s, request, reason)) ended.push(request.id);
  }
  s.queues.dropDetached();
  return ended;
}

/**
 * Ends requests from outside a step: every end that a client or a peer causes passes through here.
 * A borrowing adapter is notified first. Then statuses are realigned, the requests end, and
 * `running` is swept (vllm-omni #3774).
 * @returns external ids of the requests that ended now, in order
 */
export function finishFromOutside(
  s: SchedulerState,
  requests: Iterable<Request>,
  reason: FinishCode,
): string[] {
  const live = Array.from(requests).filter((request) => !request.isFinished);
  if (live.length > 0) s.borrower?.tellFinish(live);
  boundaryGuards.realign(s, live);
  // As in `finish`: no token caused these ends.
  if (reason !== FinishCode.abort) for (const request of live) request.stopReason = null;
  const ended = finishAll(s, live, reason);
  boundaryGuards.sweep(s);
  return ended;
}
