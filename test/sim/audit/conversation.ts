import type { Stops } from './facts.js';

/** A client's next chunk in a session, and the end of its answer. */
export interface ChunkFacts {
  prompt: Int32Array;
  stops: Stops;
  /** When it came. */
  at?: number;
}

/** The knowledge of one session beyond its request. */
export class Conversation {
  /** Chunks that came before the answer to the last one had ended. */
  readonly queue: ChunkFacts[] = [];
  /** No chunk will come any more. */
  hasEnded = false;
  /** The time since which the session waits for its next chunk, -1 = it does not. */
  idleSince = -1;

  get isIdle(): boolean {
    return this.idleSince >= 0;
  }

  get numQueued(): number {
    return this.queue.reduce((sum, { prompt }) => sum + prompt.length, 0);
  }
}
