import { endUnreported, quarantine } from './finish.js';
import type { Request } from './request.js';
import type { SchedulerState } from './scheduler-state.js';
import { FinishReason } from './status.js';

/** Limits the wait that a request begins now; `timeout` in milliseconds, 0 = it may wait for ever. */
export function startDeadline(s: SchedulerState, request: Request, timeout: number): void {
  if (timeout > 0) s.deadlines.start(request, s.now + timeout);
}

/** The wait of a request is over. */
export function stopDeadline(s: SchedulerState, request: Request): void {
  s.deadlines.stop(request);
}

/**
 * Ends with `error` every request whose wait took too long, and quarantines the finished ones whose blocks were used for too
 * long. One comparison when there is none. Rows go out with the next update.
 */
export function endExpired(s: SchedulerState): void {
  for (;;) {
    const request = s.deadlines.expired(s.now);
    if (request === null) return;
    s.deadlines.stop(request);
    if (request.isFinished) {
      quarantine(s, request);
      continue;
    }
    request.failure = `waited ${s.now - request.waitingSince} ms for ${countTimeout(s, request)}`;
    endUnreported(s, request, FinishReason.error);
  }
}

/** @returns what it waited for, in words */
function countTimeout(s: SchedulerState, request: Request): string {
  if (s.queues.idle.has(request)) {
    s.counters.streamingInputTimeouts++;
    return 'the next chunk of its session';
  }
  if (s.loading.has(request)) {
    s.counters.loadTimeouts++;
    return 'its KV to be loaded';
  }
  if (request.asksLater) {
    s.counters.loadTimeouts++;
    return 'its connector to say what it can load';
  }
  s.counters.grammarTimeouts++;
  return 'its grammar';
}
