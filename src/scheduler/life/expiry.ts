import type { Request } from '../request/request.js';
import { FinishCode } from '../request/status.js';
import type { WaitReason } from '../request/wait.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { endUnreported, quarantine } from './finish.js';
import { endGrammarWait } from './wait-for-grammar.js';

/**
 * Ends with `error` every unfinished request whose wait, queueing time or whole life has passed its
 * deadline. Quarantines finished requests whose blocks are in use beyond the reclaim deadline. The
 * rows of ended requests are published with the next update. Costs one comparison while nothing has
 * expired.
 */
export function endExpired(s: SchedulerState): void {
  for (;;) {
    const request = s.deadlines.expired(s.now);
    if (request === null) return;
    if (request.isFinished) {
      s.deadlines.stop(request);
      quarantine(s, request);
      continue;
    }
    if (mayBeAsked(s, request)) {
      s.deadlines.stop(request);
      continue;
    }
    if (askGrammar(s, request)) continue;
    request.failure = countTimeout(s, request);
    endUnreported(s, request, FinishCode.error);
  }
}

/**
 * Whether the expired deadline belongs to a connector that is asked again when a step reaches the
 * request. Its next answer decides then, because the request may have waited only for room.
 */
function mayBeAsked({ queues }: SchedulerState, request: Request): boolean {
  const { asksLater, deadline, waitDeadline } = request;
  return asksLater && waitDeadline === deadline && !queues.deferred.has(request);
}

/**
 * Asks a grammar whose deadline has passed once more, because perhaps no step has reached its
 * request since it was compiled.
 * @returns whether this deadline ends nobody: the grammar is compiled, or it failed
 */
function askGrammar(s: SchedulerState, request: Request): boolean {
  const { status, deadline, waitDeadline } = request;
  const waits = status === 'WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR' && waitDeadline === deadline;
  if (!waits) return false;
  return endGrammarWait(s, request) || request.isFinished || s.failedGrammars.has(request);
}

/**
 * Counts which deadline has passed. If several expire at the same instant the narrowest one counts:
 * wait, queue, whole request.
 * @returns the reason as text
 */
function countTimeout(s: SchedulerState, request: Request): string {
  const { deadline, waitDeadline, queueDeadline, wholeDeadline, timeoutMs } = request;
  if (waitDeadline === deadline) return countWait(s, request);
  if (queueDeadline === deadline) {
    s.counters.queueTimeouts++;
    const { queue } = s.config.deadlines;
    const waited = s.now - (queueDeadline - queue);
    return `waited ${waited} ms to be scheduled, at last for ${LACKS[request.waitReason ?? 'admission']}: deadlines.queue is ${queue} ms`;
  }
  s.counters.requestTimeouts++;
  return `took ${s.now - (wholeDeadline - timeoutMs)} ms and had not ended: its timeoutMs is ${timeoutMs} ms`;
}

/** The resource that a request in the queue waits for, as text. */
const LACKS: Readonly<Record<WaitReason, string>> = {
  admission: 'a place among the running requests',
  resumption: 'a place among the running requests after its preemption',
  adapter: 'a place among the adapters of a step',
  grammar: 'its grammar',
  'streaming-input': 'the next chunk of its session',
  connector: 'its connector to say what it can load',
  'remote-kv': 'its KV to be loaded',
  chunk: 'the chunk that its borrowing adapter waits for',
};

/**
 * Counts a wait that has passed its deadline, by the kind of wait.
 * @returns how long the request waited, and for what, as text
 */
export function countWait(s: SchedulerState, request: Request): string {
  return `waited ${s.now - request.waitingSince} ms for ${countKind(s, request)}`;
}

function countKind(s: SchedulerState, request: Request): string {
  if (s.queues.idle.has(request)) {
    s.counters.streamingInputTimeouts++;
    return 'the next chunk of its session';
  }
  if (s.withLoad.has(request)) {
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
