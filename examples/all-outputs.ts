/**
 * All requests of an engine over one channel, for instance to another process that holds the clients: a message for each step. The other
 * side knows the requests by their ids.
 *
 *     npx tsx examples/all-outputs.ts
 *
 * prints the messages of two requests.
 */
import { pathToFileURL } from 'node:url';
import { Engine, ReferenceExecutor } from 'blockstep';

/** The results of one request: its tokens, and the reason of its end, if it has ended. */
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

export async function main(print: (line: string) => void = console.log): Promise<void> {
  const options = { numBlocks: 64, blockSize: 16, maxNumSeqs: 8, maxModelLen: 512 };
  const engine = new Engine({ ...options, executor: new ReferenceExecutor(options) });
  const over = forward(engine, (news) => print(JSON.stringify(news)));
  engine.run();
  engine.submit({ id: 'a', prompt: [5, 6, 7, 5, 6], maxTokens: 2 });
  engine.submit({ id: 'b', prompt: [8, 9, 8], maxTokens: 4 });
  await engine.shutdown({ drainMs: 10_000 });
  await over;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main();
