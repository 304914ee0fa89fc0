// Health, pause, reset, abort, the end of a server.
import { connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import type { Executor } from '../../src/index.js';
import { pause, until } from '../support/waiting.js';
import { answerOf, eventsOf, isEmpty, serve } from './support/served.js';

const LONG = { prompt: 'one two one two one', max_tokens: 1500, ignore_eos: true };
/** Never answers. */
const HUNG: Executor = { usesTables: false, execute: () => new Promise(() => {}) };

describe('/health', () => {
  it('is well, and says what is served', async () => {
    const { url } = await serve();
    for (const path of ['/health', '/ping']) {
      const response = await fetch(url + path);
      expect([response.status, await response.text()]).toEqual([200, '']);
    }
    expect(await (await fetch(`${url}/version`)).json()).toEqual({
      version: expect.stringMatching(/^\d+\.\d+\.\d+/),
    });
    expect(await (await fetch(`${url}/v1/models`)).json()).toMatchObject({
      object: 'list',
      data: [{ id: 'test-model', object: 'model', max_model_len: 2048, permission: [] }],
    });
    expect((await fetch(`${url}/v1/models/other`)).status).toBe(404);
  });

  it('is 503 while the engine stands still, with the time of the last step', async () => {
    const { url, post } = await serve({ engine: { executor: HUNG }, serve: { wedgedMs: 30, drainMs: 0 } });
    const abort = new AbortController();
    const asked = post('/v1/completions', LONG, { signal: abort.signal }).catch(() => null);
    while ((await fetch(`${url}/health`)).status !== 503) await pause(5);
    expect(await (await fetch(`${url}/health`)).json()).toEqual({
      state: 'open',
      reasons: [expect.stringMatching(/^no step was answered for \d+ ms, although requests wait for one$/)],
      last_step: null,
    });
    abort.abort();
    await asked;
  });

  it('is 503 when the executor hangs, and when steps fail', async () => {
    const { url, post } = await serve({ engine: { executor: HUNG, executorTimeoutMs: 20 } });
    const broken = await post('/v1/completions', LONG);
    expect(broken.status).toBe(503);
    expect(await (await fetch(`${url}/health`)).json()).toMatchObject({
      state: 'broken',
      reasons: [expect.stringMatching(/^the executor has not answered step \d+ within 20 ms$/)],
    });
    expect((await answerOf(post('/v1/completions', LONG))).error.code).toBe('executor_hung');
  });

  it('counts what is under way', async () => {
    const { url, post } = await serve({ latencyMs: 2 });
    const load = async () =>
      ((await (await fetch(`${url}/load`)).json()) as { server_load: number }).server_load;
    const abort = new AbortController();
    const asked = [1, 2].map(() => post('/v1/completions', LONG, { signal: abort.signal }).catch(() => null));
    while ((await load()) !== 2) await pause(5);
    abort.abort();
    await Promise.all(asked);
    while ((await load()) !== 0) await pause(5);
  });
});

describe('an operator', () => {
  it('pauses in three ways, and resumes', async () => {
    const { url, post, engine } = await serve({ latencyMs: 1 });
    const isPaused = async () => (await (await fetch(`${url}/is_paused`)).json()) as unknown;
    // Running requests are aborted.
    const aborted = answerOf(post('/v1/completions', LONG));
    await until(() => engine.numRunning === 1, 'a running request');
    expect(await (await post('/pause', '')).json()).toEqual({ status: 'paused' });
    expect((await aborted).choices[0].finish_reason).toBe('abort');
    expect(await isPaused()).toEqual({ is_paused: true });
    // Requests that come meanwhile wait.
    const waiting = answerOf(post('/v1/completions', { ...LONG, max_tokens: 2 }));
    await pause(30);
    expect(engine.numRunning).toBe(0);
    await post('/resume', '');
    expect((await waiting).choices[0].finish_reason).toBe('length');
    // Running requests are kept, and go on.
    const kept = answerOf(post('/v1/completions', { ...LONG, max_tokens: 100 }));
    await until(() => engine.numRunning === 1, 'a running request');
    await post('/pause?mode=keep', '');
    await until(() => engine.stats().stepsInFlight === 0, 'the end of the step');
    const { steps } = engine.stats();
    await pause(20);
    expect(engine.stats().steps).toBe(steps);
    await post('/resume', '');
    expect((await kept).usage.completion_tokens).toBe(100);
    // Running requests end first.
    const finished = answerOf(post('/v1/completions', { ...LONG, max_tokens: 50 }));
    await until(() => engine.numRunning === 1, 'a running request');
    await post('/pause?mode=wait', '');
    expect(engine.numRunning).toBe(0);
    expect((await finished).choices[0].finish_reason).toBe('length');
    expect((await post('/pause?mode=later', '')).status).toBe(400);
    await post('/resume', '');
  });

  it('resets the prefix cache, unless blocks are in use', async () => {
    const { post, engine } = await serve({ latencyMs: 1 });
    const request = { prompt: 'one two three four '.repeat(20), max_tokens: 2 };
    const cached = async () =>
      (await answerOf(post('/v1/completions', request))).usage.prompt_tokens_details.cached_tokens;
    await cached();
    expect(await cached()).toBeGreaterThan(0);
    expect(await (await post('/reset_prefix_cache', '')).json()).toEqual({ status: 'reset' });
    expect(await cached()).toBe(0);
    const running = answerOf(post('/v1/completions', { ...LONG, max_tokens: 300 }));
    await until(() => engine.numRunning === 1, 'a running request');
    const refused = await post('/reset_prefix_cache', '');
    expect(refused.status).toBe(409);
    expect((await answerOf(refused)).error.message).toBe(
      'the prefix cache was not reset: blocks are in use by 1 requests, and 0 blocks for transfers',
    );
    expect((await post('/reset_prefix_cache?reset_running_requests=true', '')).status).toBe(200);
    expect((await running).usage.completion_tokens).toBe(300);
  });

  it('aborts requests of others by their ids', async () => {
    const { post, engine } = await serve({ latencyMs: 2 });
    const response = await post('/v1/completions', { ...LONG, stream: true });
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    const { value } = await reader.read();
    const [, id] = /"id":"([^"]+)"/.exec(value!)!;
    expect(await (await post('/abort_requests', { ids: [`${id}-0`, 'unknown'] })).json()).toEqual({
      status: 'aborted',
    });
    await until(() => isEmpty(engine), 'an empty engine');
    let rest = '';
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) rest += piece.value;
    expect(rest).toMatch(/"finish_reason":"abort".*\n\ndata: \[DONE\]\n\n$/s);
  });

  it('sees what is under way, and what each waits for', async () => {
    const { url, post, engine } = await serve({ engine: { maxNumSeqs: 1 }, latencyMs: 2 });
    const list = async () =>
      ((await (await fetch(`${url}/requests`)).json()) as { requests: { id: string; explain: string }[] })
        .requests;
    expect(await list()).toEqual([]);
    const abort = new AbortController();
    const asked = [true, false].map((stream) =>
      post('/v1/completions', { ...LONG, stream }, { signal: abort.signal }).catch(() => null),
    );
    await until(() => engine.numRunning === 1 && engine.stats().streams === 2, 'two requests');
    const requests = await list();
    expect(requests.map(({ id }) => id)).toEqual([
      expect.stringMatching(/^cmpl-.*-0$/),
      expect.stringMatching(/^cmpl-.*-0$/),
    ]);
    expect(requests.map(({ explain }) => /running|waiting/.exec(explain)?.[0]).sort()).toEqual([
      'running',
      'waiting',
    ]);
    abort.abort();
    await Promise.all(asked);
    await until(() => isEmpty(engine), 'an empty engine');
    while ((await list()).length > 0) await pause(1);
  });

  it('can be left out', async () => {
    const { post } = await serve({ serve: { control: false } });
    for (const path of ['/pause', '/resume', '/reset_prefix_cache', '/abort_requests'])
      expect((await post(path, '{}')).status).toBe(404);
  });
});

describe('the end of a server', () => {
  it('lets requests finish, refuses new ones, and has streams read to their ends', async () => {
    const { post, app, engine, url } = await serve({ latencyMs: 1, serve: { drainMs: 20_000 } });
    const asked = await post('/v1/completions', { ...LONG, max_tokens: 150, stream: true });
    await until(() => engine.numRunning === 1, 'a running request');
    const closing = app.close();
    const { port } = new URL(url);
    const late = connect(Number(port), '127.0.0.1').on('error', () => {});
    const events = await eventsOf(asked);
    expect(events.at(-1)!.choices[0].finish_reason).toBe('length');
    await closing;
    late.destroy();
    expect(engine.health().state).toBe('disposed');
  });

  it('takes the time that it is given, also where Fastify limits the ends of plugins', async () => {
    const { post, app, engine, url } = await serve({
      latencyMs: 5,
      app: { pluginTimeout: 60 },
      serve: { drainMs: 60_000 },
    });
    const asked = await post('/v1/completions', { ...LONG, max_tokens: 100, stream: true });
    const whole = answerOf(post('/v1/completions', { ...LONG, max_tokens: 80 }));
    await until(() => engine.numRunning === 2, 'two running requests');
    const closing = app.close();
    await until(() => engine.health().state === 'draining', 'the begin of the end');
    expect((await fetch(`${url}/health`)).status).toBe(503);
    // A late request is refused in the form that clients know.
    const late = await post('/v1/completions', LONG);
    expect([late.status, late.headers.get('connection')]).toEqual([503, 'close']);
    expect((await answerOf(late)).error).toMatchObject({
      type: 'service_unavailable_error',
      code: 'shutdown',
    });
    expect((await eventsOf(asked)).at(-1)!.choices[0].finish_reason).toBe('length');
    expect((await whole).usage.completion_tokens).toBe(80);
    await closing;
  });

  it('aborts what takes longer than it is given', async () => {
    const { post, app, engine } = await serve({ latencyMs: 2, serve: { drainMs: 20 } });
    const asked = await post('/v1/completions', { ...LONG, stream: true });
    await until(() => engine.numRunning === 1, 'a running request');
    await app.close();
    expect((await eventsOf(asked)).at(-1)!.choices[0].finish_reason).toBe('abort');
  });

  it('leaves an engine alone that is not its own', async () => {
    const { app, engine } = await serve({ serve: { endsEngine: false } });
    await app.close();
    expect(engine.health().state).toBe('open');
    engine.dispose();
  });
});
