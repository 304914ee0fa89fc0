/**
 * OpenAI's API over an engine, inside a server that you have: `POST /llm/v1/completions`, `/llm/v1/chat/completions` and the rest under
 * `/llm`. If a client disconnects, its request is aborted. A client that comes while the queue is
 * full gets 429 with `Retry-After`. `app.close()` lets unfinished requests finish.
 *
 *     npx tsx examples/embed.ts
 *
 * asks the server once, and prints its answer.
 */
import { pathToFileURL } from 'node:url';
import { Engine, ReferenceExecutor } from 'blockstep';
import { blockstepServer } from 'blockstep/serve';
import fastify, { type FastifyInstance } from 'fastify';

export async function server(): Promise<FastifyInstance> {
  const options = { numBlocks: 1024, blockSize: 16, maxNumSeqs: 64, maxModelLen: 2048 };
  const executor = new ReferenceExecutor(options);
  const engine = new Engine({ ...options, executor, maxQueuedRequests: 200 });

  const app = fastify({ forceCloseConnections: true });
  app.get('/', () => 'hello'); // the routes that your server has already
  await app.register(blockstepServer, { prefix: '/llm', engine, model: { id: 'my-model' }, drainMs: 10_000 });
  return app;
}

export async function main(print: (line: string) => void = console.log): Promise<void> {
  const app = await server();
  const payload = { prompt: 'A rose is a rose is a', max_tokens: 4 };
  const answer = await app.inject({ method: 'POST', url: '/llm/v1/completions', payload });
  print(answer.body);
  await app.close();
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main();
