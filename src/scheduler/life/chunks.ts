import { channels } from '../../base/channels.js';
import { PendingOp } from '../../core/core.js';
import { isFull } from '../options/kv-groups.js';
import type { Request } from '../request/request.js';
import type { Chunk, ChunkOutcome, EndOutcome } from '../request/session.js';
import { FinishCode } from '../request/status.js';
import { setStops } from '../request/stop-conditions.js';
import { blocksFrom, noteForgotten } from '../state/forget.js';
import { keepTokens } from '../state/kept-tokens.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { enterQueue, limitWhole, startDeadline, stopDeadline } from './deadlines.js';
import { finishFromOutside } from './finish.js';
import { endLoading, leaveLoading } from './loading.js';
import { discardOutputs } from './preempt.js';
import { releaseWaiting } from './reclaim.js';
import { endConnectorWait } from './wait-for-connector.js';

/**
 * Gives a session its next chunk (vLLM `add_request` of a known id). A session that waits for input starts the chunk at
 * once; otherwise the chunk is queued until the present answer has ended.
 * @returns 'started' or 'queued'
 */
export function addChunk(s: SchedulerState, request: Request, chunk: Chunk): ChunkOutcome {
  if (!isIdle(s, request)) {
    request.session?.enqueue(chunk);
    return 'queued';
  }
  stopDeadline(s, request);
  startChunk(s, request, chunk);
  s.queues.unpark(request);
  return 'started';
}

/**
 * Notes that a session's input is complete. A session that waits for input ends now with `abort`,
 * and as in vLLM without a row in the outputs. Any other session ends with the answer to its last
 * chunk.
 * @returns 'ended' or 'queued'
 */
export function endSession(s: SchedulerState, request: Request): EndOutcome {
  if (request.session !== null) request.session.ended = true;
  if (!isIdle(s, request)) return 'queued';
  finishFromOutside(s, [request], FinishCode.abort);
  return 'ended';
}

/**
 * Whether the request waits for the next chunk of its session. Membership in `queues.idle` decides,
 * as everywhere, because foreign code may have changed the status.
 */
export function isIdle(s: SchedulerState, request: Request): boolean {
  return s.queues.idle.has(request);
}

/**
 * Continues a session whose answer has just ended (vLLM `_handle_stopped_request`). Its next queued
 * chunk begins, or the session keeps its blocks and waits for a chunk. The caller must call
 * `s.queues.dropDetached()` afterwards.
 *
 * Outputs of steps in flight for the session are dropped, because those steps computed beyond a
 * complete answer. vLLM appends such outputs to the text. If the session was preempted meanwhile,
 * vLLM deletes the whole text and loses the request.
 * @returns false if the session is over: its input has ended and no chunk is queued
 */
export function continueSession(s: SchedulerState, request: Request): boolean {
  const { session } = request;
  if (session === null || (session.ended && session.queue.length === 0)) return false;
  s.queues.detach(request);
  leaveConnector(s, request);
  discardOutputs(s, request);
  request.numDraftTokens = 0;
  rewindComputed(s, request);
  s.counters.sessionChunks++;
  s.continued.push(request);
  const next = session.dequeue();
  if (next !== undefined) {
    startChunk(s, request, next);
    s.queues.pushWaiting(request);
    return true;
  }
  s.deadlines.stopAll(request);
  parkSession(s, request);
  return true;
}

/**
 * Reduces the computed tokens to the answer that has ended. Steps in flight may have computed
 * beyond it, and so may draft tokens that were accepted after the stop token. Windows have then
 * dropped blocks that the next chunk needs, and states have advanced. In that case the session is
 * computed again, as far as its prefix is not cached.
 */
function rewindComputed(s: SchedulerState, request: Request): void {
  const { numComputedTokens, numTokens } = request;
  if (numComputedTokens < numTokens) return;
  request.numComputedTokens = numTokens - 1;
  if (!s.groups.list.every(isFull)) releaseWaiting(s, request);
}

/**
 * Sets a session apart until its next chunk comes. It must be in no container, and have no
 * deadline.
 */
export function parkSession(s: SchedulerState, request: Request): void {
  request.status = 'WAITING_FOR_STREAMING_REQ';
  request.waitingSince = s.now;
  s.queues.park(request);
  startDeadline(s, request, s.config.deadlines.streamingInput);
}

/**
 * Ends pending operations of a session with its connector. A session that was preempted during its
 * answer may be waiting for the connector's answer, or for a load. The session continues without
 * either. Blocks that the load may still write stay out of use until the load was reported.
 */
function leaveConnector(s: SchedulerState, request: Request): void {
  endConnectorWait(s, request);
  if (request.load === null || endLoading(s, request)) return;
  leaveLoading(s, request);
  releaseWaiting(s, request);
}

/**
 * Makes the text so far plus the chunk the new prompt (vLLM `_update_request_as_session`). The last
 * token of the answer is dropped, because its KV was never computed. For a session that began
 * without a prompt, the first chunk is the whole prompt.
 */
function startChunk(s: SchedulerState, request: Request, chunk: Chunk): void {
  const { prompt, stops, arrivalTime } = chunk;
  const { deviations } = s.config;
  const isFirst = request.numTokens === 0;
  const kept = isFirst ? 0 : dropLastToken(s, request);
  for (let i = 0; i < prompt.length; i++) s.core.push(PendingOp.append, request.slot, prompt[i]);
  request.numTokens = kept + prompt.length;
  request.numPromptTokens = request.numTokens;
  const { maxTokens } = deviations.chunkMaxTokens ? stops : (request.session?.stops ?? stops);
  setStops(request, { ...stops, maxTokens }, s.requestLimits());
  request.arrivalTime = arrivalTime;
  request.params = chunk.params === undefined ? request.session?.params : chunk.params;
  request.forgetStopReason = deviations.clearStopReason;
  request.status = 'WAITING';
  request.waitingSince = s.now;
  enterQueue(s, request);
  limitWhole(s, request, chunk.addedAt);
  if (request.session !== null) request.session.numChunks++;
  // The admission of a first chunk counts its tokens.
  if (isFirst) s.backlog.enter(request, s.now);
  else s.counters.promptTokens += prompt.length;
  if (channels.chunk.hasSubscribers) {
    const { id, handle, numPromptTokens } = request;
    channels.chunk.publish({ id, handle, numPromptTokens, numTokens: prompt.length });
  }
}

/** Drops the last token of a session's text. @returns the number of remaining tokens */
function dropLastToken(s: SchedulerState, request: Request): number {
  keepTokens(s, request);
  const kept = request.numTokens - 1;
  // The dropped token may have completed a block, whose hash goes with the token.
  if (s.config.reportBlocks) noteForgotten(s, blocksFrom(s, request.slot, kept));
  const drop = s.config.deviations.sessionHashes ? PendingOp.truncate : PendingOp.rewind;
  s.core.push(drop, request.slot, kept);
  return kept;
}
