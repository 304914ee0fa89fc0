/**
 * All requests of an engine over one channel, for instance to another process that holds the clients: a message for each step. The other
 * side knows the requests by their ids.
 */
import type { Engine } from 'blockstep';

/** What came of one request: its tokens, and how it ended, if it did. */
export interface News {
  readonly id: string;
  readonly tokens: number[];
  readonly end?: { readonly reason: string; readonly error?: string };
}

export async function forward(engine: Engine, send: (news: News[]) => void): Promise<void> {
  for await (const { length, requests, tokens, tokenOffsets, ends } of engine.outputs()) {
    const news: News[] = [];
    for (let row = 0; row < length; row++) {
      const { id } = requests[row];
      // A copy: the arrays are used again for the next step.
      const own = [...tokens.subarray(tokenOffsets[row], tokenOffsets[row + 1])];
      const end = ends[row];
      if (end === null || end.continues) news.push({ id, tokens: own });
      else {
        const { finishReason: reason, error } = end;
        news.push({
          id,
          tokens: own,
          end: error === undefined ? { reason } : { reason, error: String(error) },
        });
      }
    }
    send(news);
  }
}
