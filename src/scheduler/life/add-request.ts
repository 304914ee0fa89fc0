import { channels } from '../../base/channels.js';
import { slotOf } from '../../core/core.js';
import { type ParsedRequest, Request } from '../request/request.js';
import { Session } from '../request/session.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { parkSession } from './chunks.js';
import { enterQueue, limitWhole } from './deadlines.js';
import { waitForGrammar } from './wait-for-grammar.js';

/**
 * Queues a new request (vLLM `add_request`). A request with a grammar waits among the skipped until
 * its grammar is ready, and a session without a prompt until its first chunk comes. If the
 * connector fails when the request is reported to it, the next step ends the request.
 * @param handle handle of the slot that the native core has opened for the request
 */
export function addRequest(s: SchedulerState, input: ParsedRequest, handle: number): Request {
  const isEmpty = input.prompt.length === 0;
  const session =
    input.resumable === true ? new Session(stopsOf(input), input.params, isEmpty ? 0 : 1) : null;
  const request = new Request(input, handle, slotOf(handle), s.requestLimits(), session);
  s.track(request);
  s.kvEvents?.added(request);
  if (isEmpty) parkSession(s, request);
  else enter(s, request);
  if (channels.add.hasSubscribers) {
    const { id, numPromptTokens, maxTokens } = request;
    channels.add.publish({ id, handle, numPromptTokens, maxTokens });
  }
  if (s.connector !== null && !s.connector.tellNew(request)) s.doomed.push(request);
  return request;
}

/** Queues a new request that has a prompt. */
function enter(s: SchedulerState, request: Request): void {
  s.backlog.enter(request, s.now);
  enterQueue(s, request);
  limitWhole(s, request, s.now);
  if (request.grammar === null) s.queues.pushWaiting(request);
  else waitForGrammar(s, request);
}

/**
 * The stop conditions of a session's first chunk. They are copied one by one, because the input would keep the whole
 * prompt alive.
 */
function stopsOf({
  maxTokens,
  minTokens,
  eosTokenId,
  ignoreEos,
  stopTokenIds,
}: ParsedRequest): Session['stops'] {
  return {
    maxTokens,
    ...(minTokens === undefined ? {} : { minTokens }),
    ...(eosTokenId === undefined ? {} : { eosTokenId }),
    ...(ignoreEos === undefined ? {} : { ignoreEos }),
    ...(stopTokenIds === undefined ? {} : { stopTokenIds }),
  };
}
