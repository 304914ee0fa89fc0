// The HTTP endpoint streams, aborts requests of clients that disconnect, and answers 429 when the
// queue is full.
import type { FastifyInstance } from 'fastify';
import { encode } from 'gpt-tokenizer';
import { afterEach, describe, expect, it } from 'vitest';
import { endpoint } from '../../examples/fastify.js';
import { Engine, type EngineOptions, ReferenceExecutor } from '../../src/index.js';

const ROSE = 'A rose is a rose is a rose. The rain in Spain stays mainly in the plain. A rose is';

interface Served {
  engine: Engine;
  app: FastifyInstance;
  url: string;
  /** Computes the oldest step that waits. */
  compute(): boolean;
}

const served: Served[] = [];
let asked: AbortController[] = [];

/** The example behind a real socket. `byHand`: steps are computed when the test says so. */
async function serve(options: Partial<EngineOptions> = {}, byHand = false): Promise<Served> {
  const sizes = { numBlocks: 256, blockSize: 16, maxNumSeqs: 8, maxModelLen: 512 };
  const waiting: (() => void)[] = [];
  const executor = new ReferenceExecutor(
    byHand ? { ...sizes, defer: (compute) => waiting.push(compute) } : sizes,
  );
  const engine = new Engine({ ...sizes, ...options, executor });
  void engine.run();
  const app = endpoint(engine);
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  const compute = (): boolean => {
    const next = waiting.shift();
    next?.();
    return next !== undefined;
  };
  const one = { engine, app, url, compute };
  served.push(one);
  return one;
}

function generate(
  url: string,
  body: unknown,
  leave: AbortController = new AbortController(),
): Promise<Response> {
  asked.push(leave);
  return fetch(`${url}/generate`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: leave.signal,
  });
}

function parse(text: string): Record<string, unknown>[] {
  return [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data) as Record<string, unknown>);
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 1));
}

afterEach(async () => {
  for (const { engine, app, compute } of served.splice(0)) {
    for (const leave of asked) leave.abort();
    asked = [];
    if (engine.health().state !== 'disposed') engine.abortAll();
    if (engine.health().state !== 'disposed') engine.resume();
    const closed = app.close();
    let isClosed = false;
    void closed.finally(() => {
      isClosed = true;
    });
    await until(() => {
      compute();
      return isClosed;
    });
  }
});

describe('an endpoint', () => {
  it('streams the text, and says how it ended', async () => {
    const { url, engine } = await serve();
    const response = await generate(url, { prompt: ROSE, maxTokens: 6 });
    expect(response.status).toBe(200);
    expect(response.headers.get('content-type')).toMatch(/^text\/event-stream/);
    const events = parse(await response.text());
    const last = events.pop();
    expect(events.map(({ text }) => text).join('')).toBe(' a rose is a rose.');
    expect(last).toEqual({
      finishReason: 'length',
      numPromptTokens: encode(ROSE).length,
      numOutputTokens: 6,
    });
    expect(engine.stats().scheduler.finished).toMatchObject({ length: 1, abort: 0 });
    expect(engine.stats().scheduler.anomalies).toEqual({});
  });

  it('sends what there is while more is computed', async () => {
    const { url, compute } = await serve({}, true);
    const asking = generate(url, { prompt: ROSE, maxTokens: 6 });
    await until(compute);
    const response = await asking;
    const reader = response.body!.getReader();
    const first = await reader.read();
    expect(parse(new TextDecoder().decode(first.value))).toEqual([{ text: ' a' }]);
    await reader.cancel();
  });

  it('aborts the request of a client that disconnects in the middle', async () => {
    const { url, engine, compute } = await serve({}, true);
    const leave = new AbortController();
    const asking = generate(url, { prompt: ROSE, maxTokens: 400 }, leave);
    await until(compute);
    const reader = (await asking).body!.getReader();
    await reader.read();
    expect(engine.numUnfinished).toBe(1);
    const free = engine.scheduler.core.freeBlocks;
    leave.abort();
    await until(() => {
      compute();
      return engine.numUnfinished === 0;
    });
    expect(engine.stats().scheduler.finished).toMatchObject({ abort: 1, length: 0 });
    expect(engine.scheduler.core.freeBlocks).toBeGreaterThan(free);
    engine.verify();
  });

  it('aborts the request of a client that disconnects before anything came', async () => {
    const { url, engine } = await serve();
    engine.pause('all');
    const leave = new AbortController();
    const asking = generate(url, { prompt: ROSE, maxTokens: 4 }, leave);
    await until(() => engine.stats().queuedRequests === 1);
    leave.abort();
    await expect(asking).rejects.toThrow();
    await until(() => engine.stats().streams === 0);
  });

  it('answers 429 with Retry-After while the queue is full', async () => {
    const { url, engine } = await serve({ maxQueuedRequests: 1 });
    engine.pause('new');
    const first = generate(url, { prompt: ROSE, maxTokens: 4 });
    await until(() => engine.stats().queuedRequests === 1);
    const refused = await generate(url, { prompt: ROSE, maxTokens: 4 });
    expect(refused.status).toBe(429);
    expect(refused.headers.get('retry-after')).toMatch(/^[1-9][0-9]*$/);
    expect(await refused.json()).toMatchObject({ code: 'ERR_BLOCKSTEP_OVERLOADED' });
    expect(engine.stats().overloads).toBe(1);
    engine.resume();
    expect(parse(await (await first).text()).at(-1)).toMatchObject({ finishReason: 'length' });
    expect((await generate(url, { prompt: ROSE, maxTokens: 4 })).status).toBe(200);
  });

  it.each([
    [400, { prompt: '' }],
    [400, { prompt: ROSE, maxTokens: 0 }],
    [413, { prompt: ROSE.repeat(40) }],
  ])('answers %i to what cannot be computed', async (status, body) => {
    const { url, engine } = await serve();
    expect((await generate(url, body)).status).toBe(status);
    expect(engine.numUnfinished).toBe(0);
  });

  it('tells of a failure in the stream that has begun', async () => {
    const { url, engine, compute } = await serve({}, true);
    const asking = generate(url, { prompt: ROSE, maxTokens: 40 });
    await until(compute);
    const response = await asking;
    engine.abortAll(new Error('why'));
    expect(parse(await response.text()).at(-1)).toEqual({ error: 'unknown' });
  });

  it('says whether the engine is healthy', async () => {
    const { url, engine } = await serve();
    expect((await fetch(`${url}/health`)).status).toBe(200);
    engine.dispose();
    const sick = await fetch(`${url}/health`);
    expect(sick.status).toBe(503);
    expect(await sick.json()).toMatchObject({ healthy: false, state: 'disposed' });
  });

  it('lets those that stream finish when it is closed', async () => {
    const { url, app, engine, compute } = await serve({}, true);
    const asking = generate(url, { prompt: ROSE, maxTokens: 6 });
    await until(compute);
    const text = asking.then((response) => response.text());
    const closed = app.close();
    let isClosed = false;
    void closed.finally(() => {
      isClosed = true;
    });
    await until(() => {
      compute();
      return isClosed;
    });
    expect(parse(await text).at(-1)).toMatchObject({ finishReason: 'length', numOutputTokens: 6 });
    expect(engine.health().state).toBe('disposed');
  });
});
