import type { ServerResponse } from 'node:http';
import type { RequestStream } from '../../engine/streams/request-stream.js';
import type { Generation } from '../reply/generation.js';

/** The generations whose responses are not over. */
export class LiveRequests {
  readonly #live = new Set<Generation>();

  add(generation: Generation, response: ServerResponse): void {
    this.#live.add(generation);
    response.once('close', () => this.#live.delete(generation));
    if (response.closed) this.#live.delete(generation);
  }

  /**
   * The engine requests whose ids contain `match`, the oldest first; at most `most` of them.
   * `total` is the number of all matches.
   */
  list(match: string, most: number): { streams: RequestStream[]; total: number } {
    const streams: RequestStream[] = [];
    let total = 0;
    for (const { choices } of this.#live) {
      for (const { stream, hasEnded } of choices) {
        if (hasEnded || !stream.id.includes(match)) continue;
        if (++total <= most) streams.push(stream);
      }
    }
    return { streams, total };
  }
}
