import type { ChunkInput } from '../scheduler/session.js';
import type { ChunkOutcome, EndOutcome } from '../scheduler/sessions.js';
import type { EngineState } from './engine-state.js';
import type { RequestStream } from './request-stream.js';

/** What a handle of a session gives to the engine; see `RequestHandle`. */
export function addChunk(e: EngineState, stream: RequestStream, chunk: ChunkInput): ChunkOutcome {
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
export function endInput(e: EngineState, stream: RequestStream): EndOutcome {
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
