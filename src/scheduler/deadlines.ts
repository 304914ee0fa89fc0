import { endUnreported } from './finish.js';
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
 * Ends with `error` every request whose wait took too long. One comparison when there is none. Their rows go out with the
 * next update.
 */
export function endExpired(s: SchedulerState): void {
  for (;;) {
    const request = s.deadlines.expired(s.now);
    if (request === null) return;
    s.deadlines.stop(request);
    const waited = s.now - request.waitingSince;
    const forGrammar = !s.queues.idle.has(request);
    if (forGrammar) s.counters.grammarTimeouts++;
    else s.counters.streamingInputTimeouts++;
    request.failure = `waited ${waited} ms for ${forGrammar ? 'its grammar' : 'the next chunk of its session'}`;
    endUnreported(s, request, FinishReason.error);
  }
}
