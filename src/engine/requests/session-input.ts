import type { ChunkInput, ChunkOutcome, EndOutcome } from '../../scheduler/request/session.js';
import type { EngineState } from '../state/engine-state.js';
import type { StreamBuffer } from '../streams/stream-buffer.js';

/** Gives a session its next chunk: `RequestStream.addChunk`. */
export function addChunk(e: EngineState, stream: StreamBuffer, chunk: ChunkInput): ChunkOutcome {
  e.checkUsable();
  if (stream.ended) return 'skipped';
  const outcome = e.change((scheduler) => scheduler.addChunk(stream.request.handle, chunk));
  e.poke();
  return outcome;
}

/**
 * Ends the input of a session: `RequestStream.endInput`. A session that waits for input ends now: the scheduler ends it as aborted and
 * without a row of outputs, as vLLM does, and the client gets the finish reason of the last answer.
 */
export function endInput(e: EngineState, stream: StreamBuffer): EndOutcome {
  e.checkUsable();
  if (stream.ended) return 'skipped';
  const outcome = e.change((scheduler) => scheduler.endSession(stream.request.handle));
  if (outcome === 'ended') {
    e.streams.remove(stream);
    stream.end(stream.lastAnswer ?? 'abort', stream.request.finishedAt);
  }
  e.poke();
  return outcome;
}
