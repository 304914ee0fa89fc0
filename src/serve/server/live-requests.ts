import type { ServerResponse } from 'node:http';
import type { Generation } from '../reply/generation.js';

/** One request of the engine that came over HTTP, as operators see it. */
export interface LiveRequest {
  /** Its id in the engine: that of the reply, and the index of the choice. */
  readonly id: string;
  readonly output_tokens: number;
  /** What it waits for, or how far it is, in words. */
  readonly explain: string;
}

/** The generations whose responses are not over. */
export class LiveRequests {
  readonly #live = new Set<Generation>();

  add(generation: Generation, response: ServerResponse): void {
    this.#live.add(generation);
    response.once('close', () => this.#live.delete(generation));
    if (response.closed) this.#live.delete(generation);
  }

  /** The oldest ones that have not ended. @param most at most so many @param explain says what one waits for */
  list(most: number, explain: (id: string) => string): LiveRequest[] {
    const found: LiveRequest[] = [];
    for (const { choices } of this.#live) {
      for (const { stream, hasEnded } of choices) {
        if (hasEnded) continue;
        if (found.length === most) return found;
        found.push({ id: stream.id, output_tokens: stream.numOutputTokens, explain: explain(stream.id) });
      }
    }
    return found;
  }
}
