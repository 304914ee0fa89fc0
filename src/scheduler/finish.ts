import { PendingOp } from '../core/core.js';
import { channels } from './channels.js';
import type { Request } from './request.js';
import type { SchedulerState } from './scheduler-state.js';
import { type FinishReason, finishedStatus, finishReasonName } from './status.js';

/**
 * The one way in which a request ends, from every state. The first reason wins; asked again it does nothing.
 * The request leaves its container by membership, its blocks go back unless a transfer still uses them, and its id is
 * reported with the next plan.
 * @returns whether it ended now
 */
export function finish(s: SchedulerState, request: Request, reason: FinishReason): boolean {
  if (request.isFinished) return false;
  s.queues.remove(request);
  end(s, request, reason);
  return true;
}

/** Ends a request outside an update: its row goes out with the next one. */
export function endUnreported(s: SchedulerState, request: Request, reason: FinishReason): void {
  if (finish(s, request, reason)) s.unreported.push(request);
}

/** As `finish`, but many can leave `running` in one pass: the caller ends with `s.queues.sweepRunning()`. */
export function finishDetached(s: SchedulerState, request: Request, reason: FinishReason): boolean {
  if (request.isFinished) return false;
  s.queues.detach(request);
  end(s, request, reason);
  return true;
}

/** Gives the blocks and the slot of a finished request back, once nothing uses them. */
export function releaseIfDrained(s: SchedulerState, request: Request): void {
  if (!request.isFinished || (request.outstanding !== null && request.outstanding.size > 0)) return;
  s.draining.delete(request);
  s.bySlot[request.slot] = undefined;
  s.core.push(PendingOp.close, request.slot, 0);
}

function end(s: SchedulerState, request: Request, reason: FinishReason): void {
  request.finishReason = reason;
  request.status = finishedStatus(reason);
  request.finishedAt = s.now;
  request.numDraftTokens = 0;
  request.session?.close();
  s.deadlines.stop(request);
  s.structured.delete(request);
  s.requests.delete(request.id);
  s.finishedIds.push(request.id);
  s.counters.finished[reason]++;
  s.draining.add(request);
  releaseIfDrained(s, request);
  if (channels.finish.hasSubscribers) {
    const { id, handle, numOutputTokens } = request;
    channels.finish.publish({ id, handle, numOutputTokens, reason: finishReasonName(reason) });
  }
}

/**
 * Ends several requests at once (vLLM `finish_requests`): all leave their queues first, then each is freed, in order.
 * @returns the external ids of those that ended now
 */
export function finishAll(s: SchedulerState, requests: Iterable<Request>, reason: FinishReason): string[] {
  const ended: string[] = [];
  for (const request of requests) {
    if (finishDetached(s, request, reason)) ended.push(request.id);
  }
  s.queues.sweepRunning();
  return ended;
}
