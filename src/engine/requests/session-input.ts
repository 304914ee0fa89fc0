import type { ChunkInput, ChunkOutcome, EndOutcome } from '../../scheduler/request/session.js';
import type { EngineState } from '../state/engine-state.js';
import type { StreamBuffer } from '../streams/stream-buffer.js';

/** What the stream of a session gives to the engine; see `RequestStream`. */
export function addChunk(e: EngineState, stream: StreamBuffer, chunk: ChunkInput): ChunkOutcome {
  e.checkUsable();
  if (stream.ended) return 'skipped';
  const outcome = e.change((scheduler) => scheduler.addChunk(stream.request.handle, chunk));
  e.poke();
  return outcome;
}

/**
 * The scheduler ends a session that waits for input as aborted and without a row, as vLLM does. To its client it ends as its
 * last answer did.
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
