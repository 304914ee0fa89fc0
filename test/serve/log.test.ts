// The log line of each request, the texts that no line has, and the ids of requests.
import { readFileSync } from 'node:fs';
import { LogController } from 'fastify';
import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import type { Executor } from '../../src/index.js';
import { until } from '../support/waiting.js';
import { answerOf, eventsOf, isEmpty, MODEL, type Served, serve } from './support/served.js';

/** Fastify's own lines for each request would be found twice. */
const QUIET = new LogController({ disableRequestLogging: true });
const PROMPT = 'one two one two one two';

/** A line of the log, as far as these tests read it. */
interface Line {
  readonly level: number;
  readonly msg: string;
  readonly reqId: string;
  readonly path: string;
  readonly status?: number;
  readonly left?: true;
  readonly ms: number;
  readonly id?: string;
  readonly error?: { readonly code: string; readonly param?: string; readonly message?: string };
  readonly err?: { readonly stack: string };
  readonly answers?: readonly string[];
}

/** A server that logs, and the lines of its requests so far. */
async function logged(options: Served = {}, level = 'info') {
  const texts: string[] = [];
  const stream = { write: (text: string) => void texts.push(text) };
  const served = await serve({ ...options, app: { logger: { level, stream }, logController: QUIET } });
  const lines = (): Line[] =>
    texts.map((text) => JSON.parse(text) as Line).filter(({ msg }) => msg === 'request');
  /** The line number `n` of all, when it is there. */
  const line = async (n = 0): Promise<Line> => {
    await until(() => lines().length > n, `line ${n} of the log`);
    return lines()[n];
  };
  return { ...served, texts, lines, line };
}

describe('the log', () => {
  it('has one line for a request, whole or streamed, with its tokens and times', async () => {
    const { post, line, lines } = await logged({ latencyMs: 1 });
    const request = { prompt: PROMPT, max_tokens: 5, n: 2 };
    const { id } = await answerOf(post('/v1/completions?x=1', request));
    const [event] = await eventsOf(await post('/v1/chat/completions', { ...CHAT, stream: true }));
    expect(await line()).toEqual({
      level: 30,
      time: expect.any(Number),
      pid: expect.any(Number),
      hostname: expect.any(String),
      reqId: expect.stringMatching(/^[\da-f-]{36}$/),
      msg: 'request',
      method: 'POST',
      path: '/v1/completions',
      ip: '127.0.0.1',
      status: 200,
      ms: expect.any(Number),
      id,
      prompt_tokens: 6,
      cached_tokens: 0,
      output_tokens: 10,
      choices: 2,
      finish_reason: 'length',
      queue_ms: expect.any(Number),
      first_token_ms: expect.any(Number),
    });
    expect(await line(1)).toMatchObject({ id: event.id, path: '/v1/chat/completions', output_tokens: 3 });
    expect(lines()).toHaveLength(2);
  });

  it('has no line for what only reads, unless that fails or the level is debug', async () => {
    const { url, line, lines } = await logged();
    for (const path of ['/health', '/metrics', '/v1/models', '/requests', '/nothing'])
      await fetch(url + path);
    expect(await line()).toMatchObject({ path: '/nothing', status: 404, error: { code: 'not_found' } });
    expect(lines()).toHaveLength(1);
    const debugged = await logged({}, 'debug');
    await fetch(`${debugged.url}/health`);
    expect(await debugged.line()).toMatchObject({ level: 20, path: '/health', status: 200 });
  });

  it('says why a request was refused or failed, and who left', async () => {
    const broken: Executor = {
      usesTables: false,
      execute: () => Promise.reject(new Error('the GPU is on fire')),
    };
    const { post, line } = await logged({ engine: { executor: broken }, serve: { apiKeys: ['key'] } });
    const headers = { authorization: 'Bearer key' };
    await post('/v1/completions', { prompt: PROMPT, max_tokens: -1 }, { headers });
    await post('/v1/completions', { prompt: PROMPT });
    await post('/v1/completions', { prompt: PROMPT }, { headers });
    expect(await line()).toMatchObject({
      level: 30,
      status: 400,
      error: { code: 'invalid_value', param: 'max_tokens' },
    });
    expect(await line(1)).toMatchObject({
      level: 30,
      status: 401,
      error: { code: 'missing_api_key', message: 'a key is required, as "Authorization: Bearer KEY"' },
    });
    expect(await line(2)).toMatchObject({
      level: 50,
      status: 500,
      error: { code: 'executor' },
      err: { stack: expect.stringContaining('the GPU is on fire') },
    });
    const slow = await logged({ latencyMs: 2 });
    for (const stream of [true, false]) {
      const leave = new AbortController();
      const body = { prompt: PROMPT, max_tokens: 1000, ignore_eos: true, stream };
      const asked = slow.post('/v1/completions', body, { signal: leave.signal }).catch(() => null);
      await until(() => slow.engine.numRunning === 1, 'a running request');
      if (stream) await asked;
      leave.abort();
      await until(() => isEmpty(slow.engine), 'an empty engine');
    }
    expect(await slow.line(0)).toMatchObject({ left: true, status: 200, finish_reason: 'abort' });
    expect(await slow.line(1)).toMatchObject({ left: true, finish_reason: 'abort' });
    expect((await slow.line(1)).status).toBeUndefined();
  });

  it('has no error where a request comes while the server ends', async () => {
    const { post, url, line, app, engine } = await logged({ latencyMs: 5, serve: { drainMs: 60_000 } });
    const body = { prompt: PROMPT, max_tokens: 200, ignore_eos: true };
    const whole = post('/v1/completions', body);
    await until(() => engine.numRunning === 1, 'a running request');
    const closing = app.close();
    await until(() => engine.health().state === 'draining', 'the begin of the end');
    expect((await fetch(`${url}/health`)).status).toBe(503);
    expect((await post('/v1/completions', body)).status).toBe(503);
    expect(await line()).toMatchObject({ level: 40, path: '/health', status: 503 });
    const late = await line(1);
    expect(late).toMatchObject({ level: 30, status: 503, error: { code: 'shutdown' } });
    expect([late.err, (await line()).err]).toEqual([undefined, undefined]);
    expect((await whole).status).toBe(200);
    await closing;
  });

  it('says of a stream that failed on its way what failed', async () => {
    let steps = 0;
    const broken: Executor = {
      usesTables: false,
      execute: () => {
        if (++steps > 2) throw new Error('the GPU is on fire');
        return { tokens: Int32Array.of(1000), counts: Int32Array.of(1) };
      },
    };
    const { post, line } = await logged({ engine: { executor: broken } });
    await (await post('/v1/completions', { prompt: PROMPT, max_tokens: 9, stream: true })).text();
    expect(await line()).toMatchObject({
      level: 50,
      status: 200,
      prompt_tokens: 6,
      output_tokens: 2,
      error: { code: 'executor' },
      err: { stack: expect.stringContaining('the GPU is on fire') },
    });
  });

  it('has no prompt, answer or key, whatever is sent', async () => {
    const secret = 'xyzzy';
    const { post, url, texts, line } = await logged({ serve: { apiKeys: [secret] } }, 'trace');
    const headers = { authorization: `Bearer ${secret}` };
    const content = { role: 'user', content: secret };
    const bodies: unknown[] = [
      { prompt: secret, max_tokens: 4 },
      { prompt: secret, max_tokens: 4, stream: true },
      { messages: [content], max_tokens: 4 },
      { prompt: secret, max_tokens: secret },
      { prompt: [secret, 7, secret] },
      { prompt: secret, stop: { secret } },
      { messages: [{ ...content, role: secret }] },
      { messages: secret },
      `{"prompt": "${secret}`,
      `"${secret}"`,
      secret,
    ];
    const paths = ['/v1/completions', '/v1/chat/completions', '/tokenize', '/abort_requests'];
    const statuses = new Set<number>();
    for (const path of paths) {
      for (const body of bodies) {
        const response = await post(path, body, { headers });
        await response.text();
        statuses.add(response.status);
      }
    }
    expect([...statuses].sort()).toEqual([200, 400]);
    await fetch(`${url}/requests?match=${encodeURIComponent(secret)}`, { headers });
    await post('/v1/completions', { prompt: secret }, { headers: { authorization: `Bearer ${secret} no` } });
    await line(paths.length * bodies.length + 1);
    expect(texts.filter((text) => text.includes(secret))).toEqual([]);
  });

  it('has prompts and answers if that is wanted', async () => {
    const { post, line } = await logged({ serve: { logPrompts: true } });
    const { choices } = await answerOf(post('/v1/completions', { prompt: PROMPT, max_tokens: 4 }));
    await post('/v1/chat/completions', { messages: CHAT.messages, max_tokens: 'many' });
    await post('/v1/responses', { input: PROMPT, instructions: 'Be brief.', max_output_tokens: 4 });
    expect(await line()).toMatchObject({ prompt: PROMPT, answers: [choices[0].text] });
    expect(await line(2)).toMatchObject({
      prompt: PROMPT,
      instructions: 'Be brief.',
      answers: [expect.any(String)],
    });
    // The page of operators has every field.
    const page = readFileSync(new URL('../../docs/operating.md', import.meta.url), 'utf8');
    const named = [...page.matchAll(/^\| (`.*?`) \|/gm)].flatMap(([, names]) => names.match(/\w+/g) ?? []);
    const own = ['level', 'time', 'pid', 'hostname', 'reqId', 'msg'];
    const fields = Object.keys({ ...(await line()), ...(await line(1)), ...(await line(2)) });
    expect(fields.filter((name) => !own.includes(name) && !named.includes(name))).toEqual([]);
    expect(await line(1)).toMatchObject({
      prompt: CHAT.messages,
      error: { message: 'max_tokens must be an integer from 1 to 2147483647, got "many"' },
    });
  });
});

describe('the id of a request', () => {
  it('is the client’s own, or a new one, in the answer, in the log, and to OpenAI’s client', async () => {
    const { post, url, line, engine } = await logged({ latencyMs: 1 });
    const body = { prompt: PROMPT, max_tokens: 3 };
    const ask = async (id: string, stream = false) => {
      const response = await post(
        '/v1/completions',
        { ...body, stream },
        { headers: { 'x-request-id': id } },
      );
      await response.text();
      return response.headers.get('x-request-id');
    };
    const longest = `a ${'~'.repeat(126)}`;
    expect(await ask(longest)).toBe(longest);
    expect(await ask('mine', true)).toBe('mine');
    expect(await line(1)).toMatchObject({ reqId: 'mine', id: expect.stringMatching(/^cmpl-[\da-f]{32}$/) });
    for (const bad of [`${longest}~`, 'm\u00fcll', 'a\tb']) expect(await ask(bad)).toMatch(/^[\da-f-]{36}$/);
    // Two clients may give the same, at the same time.
    await Promise.all([ask('mine'), ask('mine')]);
    expect(engine.stats().scheduler.numRunning).toBe(0);
    const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
    const { _request_id: id } = await openai.completions.create({ model: MODEL, ...body });
    expect((await line(7)).reqId).toBe(id);
    // Refused ones and unknown routes have one too.
    for (const path of ['/health', '/nothing'])
      expect(
        (await fetch(url + path, { headers: { 'x-request-id': 'x' } })).headers.get('x-request-id'),
      ).toBe('x');
  });
});

const CHAT = { messages: [{ role: 'user', content: PROMPT }], max_tokens: 3 };
