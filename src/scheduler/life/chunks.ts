import { channels } from '../../base/channels.js';
import { PendingOp } from '../../core/core.js';
import type { Request } from '../request/request.js';
import type { Chunk, ChunkOutcome, EndOutcome } from '../request/session.js';
import { FinishCode } from '../request/status.js';
import { setStops } from '../request/stop-conditions.js';
import { noteForgotten } from '../state/forget.js';
import { keepTokens } from '../state/kept-tokens.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { enterQueue, limitWhole, startDeadline, stopDeadline } from './deadlines.js';
import { finish } from './finish.js';
import { endLoading, leaveLoading } from './loading.js';
import { discardOutputs } from './preempt.js';
import { releaseWaiting } from './reclaim.js';
import { endConnectorWait } from './wait-for-connector.js';

/** Gives a session its next chunk (vLLM `add_request` of a known id). */
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

/** Announces that a session's input is complete. An idle one ends now, as in vLLM without a row. */
export function endSession(s: SchedulerState, request: Request): EndOutcome {
  if (request.session !== null) request.session.ended = true;
  if (!isIdle(s, request)) return 'queued';
  finish(s, request, FinishCode.abort);
  return 'ended';
}

/** Whether the request waits for the next chunk of its session. As everything here this goes by membership. */
export function isIdle(s: SchedulerState, request: Request): boolean {
  return s.queues.idle.has(request);
}

/**
 * What becomes of a session whose answer has just ended (vLLM `_handle_stopped_request`): the next chunk begins, or the
 * request waits for it and keeps its blocks. The caller ends with `s.queues.dropDetached()`.
 *
 * What steps in flight still bring for it is dropped: they computed behind an answer that was complete. vLLM appends it
 * to the text; and where the session was preempted meanwhile, it deletes the whole text and loses the request.
 * @returns false if the session is over
 */
export function continueSession(s: SchedulerState, request: Request): boolean {
  const { session } = request;
  if (session === null || (session.ended && session.queue.length === 0)) return false;
  s.queues.detach(request);
  leaveConnector(s, request);
  discardOutputs(s, request);
  request.numDraftTokens = 0;
  // Accepted drafts behind the stop were counted as computed.
  request.numComputedTokens = Math.min(request.numComputedTokens, request.numTokens - 1);
  s.counters.sessionChunks++;
  s.continued.push(request);
  const next = session.dequeue();
  if (next !== undefined) {
    startChunk(s, request, next);
    s.queues.pushWaiting(request);
    return true;
  }
  request.status = 'WAITING_FOR_STREAMING_REQ';
  request.waitingSince = s.now;
  s.deadlines.stopAll(request);
  s.queues.park(request);
  startDeadline(s, request, s.config.deadlines.streamingInput);
  return true;
}

/**
 * A session that was preempted while its answer was computed may wait for its connector by now: to say what it can load, or
 * for the load. The session goes on without either, and blocks stay out of use until they are not written any more.
 */
function leaveConnector(s: SchedulerState, request: Request): void {
  endConnectorWait(s, request);
  if (request.load === null || endLoading(s, request)) return;
  leaveLoading(s, request);
  releaseWaiting(s, request);
}

/**
 * Makes what was said so far and the chunk the new prompt (vLLM `_update_request_as_session`). The last token of the
 * answer was never computed; it is dropped.
 */
function startChunk(s: SchedulerState, request: Request, chunk: Chunk): void {
  const { prompt, stops, arrivalTime } = chunk;
  const { deviations } = s.config;
  keepTokens(s, request);
  const kept = request.numTokens - 1;
  // The dropped token may have completed a block.
  if (s.config.reportBlocks)
    noteForgotten(s, s.core.blocks(request.slot).subarray(Math.floor(kept / s.config.blockSize)));
  s.core.push(deviations.sessionHashes ? PendingOp.truncate : PendingOp.rewind, request.slot, kept);
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
  s.counters.promptTokens += prompt.length;
  if (channels.chunk.hasSubscribers) {
    const { id, handle, numPromptTokens } = request;
    channels.chunk.publish({ id, handle, numPromptTokens, numTokens: prompt.length });
  }
}
