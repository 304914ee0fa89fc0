import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { onTestFinished } from 'vitest';

/** A request for a completion, as a fake server got it. */
export interface Asked {
  readonly body: Record<string, unknown> & { prompt: number[]; max_tokens: number };
  readonly headers: IncomingMessage['headers'];
  /** By `performance.now()`. */
  readonly atMs: number;
  /** How many came before. */
  readonly index: number;
}

/** The behaviour of a fake server. Completions are answered by the test. */
export interface FakeOptions {
  complete?: (asked: Asked, response: ServerResponse) => unknown;
  models?: (response: ServerResponse) => unknown;
  /** The texts of `/metrics`, one for each reading. */
  metrics?: readonly string[];
}

/** A small server with the routes of OpenAI's API that a replay uses; it ends with the test. */
export async function fakeServer(options: FakeOptions = {}) {
  const server = await openFakeServer(options);
  onTestFinished(server.close);
  return server;
}

/** The same; the caller closes it. */
export async function openFakeServer({ complete = answer, models = oneModel, metrics }: FakeOptions = {}) {
  const asked: Asked[] = [];
  const seen = { modelsMs: 0, readings: 0, open: 0, mostOpen: 0, cut: 0 };
  const server = createServer((request, response) => {
    if (request.url === '/v1/models') {
      seen.modelsMs = performance.now();
      models(response);
    } else if (request.url === '/metrics' && metrics !== undefined)
      response.end(metrics[Math.min(metrics.length - 1, seen.readings++)]);
    else if (request.url === '/v1/completions') void completion(request, response);
    else response.writeHead(404).end();
  });
  async function completion(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const atMs = performance.now();
    seen.mostOpen = Math.max(seen.mostOpen, ++seen.open);
    response.once('close', () => {
      seen.open--;
      if (!response.writableFinished) seen.cut++;
    });
    let text = '';
    for await (const piece of request.setEncoding('utf8')) text += piece;
    const one = {
      body: JSON.parse(text) as Asked['body'],
      headers: request.headers,
      atMs,
      index: asked.length,
    };
    asked.push(one);
    await complete(one, response);
  }
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const close = (): void => void server.close().closeAllConnections();
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, asked, seen, close };
}

export function oneModel(response: ServerResponse): void {
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify({ object: 'list', data: [{ id: 'fake-model' }, { id: 'another' }] }));
}

/** Begins a stream of events. */
export function beginStream(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
  response.flushHeaders();
}

/** A chunk of text, with a finish reason if it is the last one. */
export function chunk(text: string, finish_reason: string | null = null): string {
  return `data: ${JSON.stringify({ choices: [{ index: 0, text, finish_reason }] })}\n\n`;
}

/** The usage of a request that got all its tokens, 16 of its prompt from a cache. */
export function usage({ body }: Asked): string {
  const [prompt_tokens, completion_tokens] = [body.prompt.length, body.max_tokens];
  const prompt_tokens_details = { cached_tokens: 16 };
  return `data: ${JSON.stringify({ choices: [], usage: { prompt_tokens, completion_tokens, prompt_tokens_details } })}\n\n`;
}

/** Answers as OpenAI's API does: a chunk for each token, the usage, and the end. */
export async function answer(asked: Asked, response: ServerResponse): Promise<void> {
  beginStream(response);
  for (let i = 1; i <= asked.body.max_tokens; i++) {
    response.write(chunk(' x', i === asked.body.max_tokens ? 'length' : null));
    await setImmediate();
  }
  response.end(`${usage(asked)}data: [DONE]\n\n`);
}

/** A trace of Mooncake's format: requests of 600 prompt tokens, of which the first 512 are shared, so many milliseconds apart. */
export function trace(requests: number, everyMs = 0, outputTokens = 4): string {
  const lines = Array.from({ length: requests }, (_, i) =>
    JSON.stringify({
      timestamp: i * everyMs,
      input_length: 600,
      output_length: outputTokens,
      hash_ids: [0, i + 1],
    }),
  );
  return `${lines.join('\n')}\n`;
}
