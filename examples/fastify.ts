/**
 * An HTTP endpoint in front of an engine, with Fastify.
 *
 *     POST /generate {"prompt": "A rose is", "maxTokens": 24}   the text as server-sent events, while it is generated
 *     GET  /health                                              200, or 503 and the reasons
 *
 * - A client that disconnects has its request aborted: its blocks go back before the next step.
 * - A client that comes while the queue is full gets 429, and in `Retry-After` after how many
 *   seconds to come back. The engine's options `maxQueuedRequests` and `maxQueuedTokens` limit the
 *   queue.
 * - `app.close()` lets unfinished requests finish for at most 10 seconds, then ends the engine.
 *
 * In your own server: `await endpoint(engine).listen({ port: 8080 })`, with an engine that runs
 * (`engine.run()`).
 *
 *     npx tsx examples/fastify.ts
 *
 * asks the endpoint once, and prints what it streams.
 */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pathToFileURL } from 'node:url';
import { BlockstepError, Engine, type ErrorCode, ReferenceExecutor, type RequestStream } from 'blockstep';
import fastify, { type FastifyInstance } from 'fastify';
import { decodeAsyncGenerator, encode } from 'gpt-tokenizer';

/** Milliseconds that unfinished requests are given at the end, and then a client to read its last bytes. */
const DRAIN_MS = 10_000;
const FLUSH_MS = 1000;

/** The schema that Fastify checks before the handler runs: a bad body is answered with 400. */
const BODY = {
  type: 'object',
  required: ['prompt'],
  additionalProperties: false,
  properties: {
    prompt: { type: 'string', minLength: 1 },
    maxTokens: { type: 'integer', minimum: 1 },
  },
} as const;

/** HTTP statuses of what `submit` throws; everything else is 500. */
const STATUS: { readonly [code in ErrorCode]?: number } = {
  ERR_BLOCKSTEP_BAD_ARG: 400,
  ERR_BLOCKSTEP_UNFIT: 413,
  ERR_BLOCKSTEP_OVERLOADED: 429,
  ERR_BLOCKSTEP_SHUTDOWN: 503,
};

export function endpoint(engine: Engine): FastifyInstance {
  // Streaming connections are waited for below; connections without a request are closed at once.
  const app = fastify({ forceCloseConnections: true });
  const streaming = new Set<ServerResponse>();

  app.post<{ Body: { prompt: string; maxTokens?: number } }>(
    '/generate',
    { schema: { body: BODY } },
    (request, reply) => {
      const { prompt, maxTokens = 256 } = request.body;
      const stream = engine.submit({ prompt: encode(prompt), maxTokens });
      streaming.add(reply.raw);
      reply.raw.once('close', () => {
        streaming.delete(reply.raw);
        // The client has left; or it has had everything, and then the abort does nothing.
        stream.abort();
      });
      reply.type('text/event-stream');
      return reply.send(Readable.from(events(stream)));
    },
  );

  app.get('/health', (_request, reply) => {
    const health = engine.health();
    return reply.code(health.healthy ? 200 : 503).send(health);
  });

  app.setErrorHandler((error, _request, reply) => {
    if (!(error instanceof BlockstepError)) return reply.send(error);
    const { code, message, retryAfterMs } = error;
    if (code === 'ERR_BLOCKSTEP_OVERLOADED') reply.header('retry-after', seconds(retryAfterMs));
    return reply.code(STATUS[code] ?? 500).send({ code, message });
  });

  // Runs before the connections are closed. No request is left behind `shutdown`; the last chunks
  // may still be in transit.
  app.addHook('preClose', async () => {
    await engine.shutdown({ drainMs: DRAIN_MS });
    const signal = AbortSignal.timeout(FLUSH_MS);
    await Promise.allSettled([...streaming].map((response) => once(response, 'close', { signal })));
  });
  return app;
}

/** The text of a request as server-sent events, and how it ended as the last one. */
async function* events(stream: RequestStream): AsyncGenerator<string> {
  try {
    // A character can be made of several tokens: the decoder keeps those that are not whole yet.
    for await (const text of decodeAsyncGenerator(tokens(stream))) yield event({ text });
    const { finishReason, numPromptTokens, tokens: all } = await stream.result();
    yield event({ finishReason, numPromptTokens, numOutputTokens: all.length });
  } catch (error) {
    // The status was sent long ago, so the failure goes into the stream.
    yield event({ error: error instanceof BlockstepError ? error.code : 'unknown' });
  }
}

async function* tokens(stream: RequestStream): AsyncGenerator<number> {
  for await (const output of stream) yield* output.tokens;
}

function event(data: object): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}

/** Whole seconds, as `Retry-After` takes them; 1 while the engine has admitted nothing yet that it could judge by. */
function seconds(ms: number | null | undefined): number {
  return Math.max(1, Math.ceil((ms ?? 1000) / 1000));
}

export async function main(print: (line: string) => void = console.log): Promise<void> {
  const options = { numBlocks: 256, blockSize: 16, maxNumSeqs: 8, maxModelLen: 512 };
  const engine = new Engine({ ...options, executor: new ReferenceExecutor(options) });
  engine.run();
  const app = endpoint(engine);
  const payload = {
    prompt: 'A rose is a rose is a rose. The rain in Spain stays mainly in the plain. A rose is',
    maxTokens: 6,
  };
  print((await app.inject({ method: 'POST', url: '/generate', payload })).body);
  await app.close();
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main();
