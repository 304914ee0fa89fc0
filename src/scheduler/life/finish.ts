import { channels } from '../../base/channels.js';
import { PendingOp } from '../../core/core.js';
import { isLoading } from '../request/load.js';
import type { Request } from '../request/request.js';
import { FinishCode, type FinishReason, finishReasonOf } from '../request/status.js';
import { keepTokens } from '../state/kept-tokens.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { handOver } from './hand-over.js';
import { leaveLoading } from './loading.js';
import { giveRowBack } from './preempt.js';

/**
 * The one way in which a request ends, from every state. The first reason wins; asked again it does nothing.
 * The request leaves its container by membership, its blocks go back unless a transfer still uses them, and its id is
 * reported with the next plan.
 * @returns whether it ended now
 */
export function finish(s: SchedulerState, request: Request, reason: FinishCode): boolean {
  if (request.isFinished) return false;
  s.queues.remove(request);
  // No token ended it. What stopped an earlier answer of its session is no reason of this end (as in vLLM's row of a failed load).
  if (reason !== FinishCode.abort) request.stopReason = null;
  end(s, request, reason);
  return true;
}

/** Ends a request outside an update: its row goes out with the next one. */
export function endUnreported(s: SchedulerState, request: Request, reason: FinishCode): void {
  if (finish(s, request, reason)) s.unreported.push(request);
}

/** As `finish`, but many can leave `running` in one pass: the caller ends with `s.queues.dropDetached()`. */
export function finishDetached(s: SchedulerState, request: Request, reason: FinishCode): boolean {
  if (request.isFinished) return false;
  s.queues.detach(request);
  end(s, request, reason);
  return true;
}

/**
 * After a use of its blocks ended: with the last load its request can go on; when no use is left, blocks that a preemption
 * had to keep go back, and with a finished request all that it has.
 */
export function releaseIfDrained(s: SchedulerState, request: Request): void {
  if (request.load !== null && !isLoading(request)) {
    // It waits for nobody else any more, however long it takes until a step reaches it.
    s.deadlines.stop(request);
    s.queues.unparkLoading(request);
  }
  if (request.outstanding !== null && request.outstanding.size > 0) return;
  s.usedRequests.delete(request);
  s.queues.offer(request);
  if (request.keptBlocks !== null) {
    // Last first, as a row gives its blocks back, so that the beginnings of texts stay cached longest.
    s.core.native.unpin(request.keptBlocks.reverse());
    request.keptBlocks = null;
  }
  if (!request.isFinished || s.bySlot[request.slot] !== request) return;
  s.deadlines.stop(request);
  s.draining.delete(request);
  s.drainingRows.delete(request);
  s.quarantined.delete(request);
  s.bySlot[request.slot] = undefined;
  s.core.push(PendingOp.close, request.slot, 0);
}

/**
 * Gives up waiting for what still uses a finished request's blocks: nobody waits for them any more, and nobody gets them
 * until a report comes after all, or `fenceTransfers` says that nothing touches them. Its row is free again at once.
 */
export function quarantine(s: SchedulerState, request: Request): void {
  s.draining.delete(request);
  s.quarantined.add(request);
  giveRowBack(s, request);
  s.counters.quarantines++;
}

/**
 * Whoever uses a request's blocks is alive: the deadline of its load, or of its blocks when it has finished, starts again. One
 * that was given up is waited for again.
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

/** Something still uses its blocks. */
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
  s.requests.delete(request.id);
  s.backlog.leave(request, s.now, false);
  s.blocksMoved = true;
  handOver(s, request, reason);
  leaveLoading(s, request);
  s.finishedIds.push(request.id);
  s.finishedHandles.push(request.handle);
  s.counters.finished[reason]++;
  if (request.outstanding === null || request.outstanding.size === 0) releaseIfDrained(s, request);
  else drain(s, request);
  if (channels.finish.hasSubscribers) {
    const { id, handle, numOutputTokens } = request;
    channels.finish.publish({ id, handle, numOutputTokens, reason: finishReasonOf(reason) as FinishReason });
  }
}

/**
 * Ends several requests at once (vLLM `finish_requests`): all leave their queues first, then each is freed, in order.
 * @returns the external ids of those that ended now
 */
export function finishAll(s: SchedulerState, requests: Iterable<Request>, reason: FinishCode): string[] {
  const ended: string[] = [];
  for (const request of requests) {
    if (finishDetached(s, request, reason)) ended.push(request.id);
  }
  s.queues.dropDetached();
  return ended;
}
