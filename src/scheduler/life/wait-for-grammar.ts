import type { Request } from '../request/request.js';
import { FinishCode } from '../request/status.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { startDeadline, stopDeadline } from './deadlines.js';
import { endUnreported } from './finish.js';

/** Makes a new request wait among the skipped until its grammar is compiled. */
export function waitForGrammar(s: SchedulerState, request: Request): void {
  request.status = 'WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR';
  s.queues.pushSkipped(request);
  startDeadline(s, request, s.config.deadlines.grammar);
}

/**
 * Asks a request's grammar, and ends the wait if it is compiled. From then on the request waits
 * only for its admission. A request whose grammar failed ends.
 * @returns whether the wait is over and the request may be admitted
 */
export function endGrammarWait(s: SchedulerState, request: Request): boolean {
  if (s.failedGrammars.has(request)) return false;
  const ready = s.grammars.askReady(request);
  if (ready === 0) return false;
  stopDeadline(s, request);
  if (ready !== 1) {
    if (s.config.grammarFailures === 'update') s.failedGrammars.add(request);
    else endUnreported(s, request, FinishCode.error);
    return false;
  }
  request.status = 'WAITING';
  request.waitingSince = s.now;
  return true;
}
