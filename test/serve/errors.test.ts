// Refusals and their format; a full queue; keys and foreign pages; old clients.
import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { describe, expect, it } from 'vitest';
import { AsideLimitError } from '../../src/base/scripts/aside.js';
import type { Executor } from '../../src/index.js';
import { o200k } from '../../src/serve/index.js';
import { answerOf, eventsOf, isEmpty, MODEL, serve } from './support/served.js';

const PROMPT = 'one two one';

/** The answer to a refused body: status, code and the field at fault. */
const REFUSED: [string, unknown, number, string | null, string | null][] = [
  ['no JSON', '{"prompt": ', 400, null, null],
  ['no object', [1], 400, null, null],
  ['a text', '"x"', 400, null, null],
  ['nothing', 'null', 400, null, null],
  ['no prompt', {}, 400, 'invalid_value', 'prompt'],
  ['an empty prompt', { prompt: '' }, 400, 'invalid_value', 'prompt'],
  ['no prompts', { prompt: [] }, 400, 'invalid_value', 'prompt'],
  ['a prompt of another type', { prompt: { a: 1 } }, 400, 'invalid_value', 'prompt'],
  ['a lone surrogate', '{"prompt": "a\\ud800b"}', 400, 'invalid_value', 'prompt'],
  ['a token that is none', { prompt: [1, 2.5] }, 400, 'invalid_value', 'prompt[1]'],
  ['a token out of range', { prompt: [[1, 10 ** 9]] }, 400, 'invalid_value', 'prompt[0][1]'],
  ['lists of mixed kinds', { prompt: ['a', 1] }, 400, 'invalid_value', 'prompt[1]'],
  ['another model', { model: 'gpt-9', prompt: PROMPT }, 404, 'model_not_found', 'model'],
  ['a model that is no name', { model: 7, prompt: PROMPT }, 400, null, 'model'],
  ['n as text', { prompt: PROMPT, n: '2' }, 400, 'invalid_value', 'n'],
  ['n of 0', { prompt: PROMPT, n: 0 }, 400, 'invalid_value', 'n'],
  ['a huge n', { prompt: PROMPT, n: 1e9 }, 400, 'invalid_value', 'n'],
  ['many choices', { prompt: Array(100).fill(PROMPT), n: 2 }, 400, 'invalid_value', 'n'],
  ['many prompts', { prompt: Array(1000).fill(PROMPT) }, 400, 'invalid_value', 'prompt'],
  ['a negative length', { prompt: PROMPT, max_tokens: -1 }, 400, 'invalid_value', 'max_tokens'],
  ['a length of 0', { prompt: PROMPT, max_tokens: 0 }, 400, 'invalid_value', 'max_tokens'],
  ['a fractional length', { prompt: PROMPT, max_tokens: 1.5 }, 400, 'invalid_value', 'max_tokens'],
  ['a length beyond the model', { prompt: PROMPT, max_tokens: 4000 }, 400, 'invalid_value', 'max_tokens'],
  [
    'more at least than at most',
    { prompt: PROMPT, max_tokens: 2, min_tokens: 3 },
    400,
    'invalid_value',
    'min_tokens',
  ],
  ['a long prompt', { prompt: 'word '.repeat(3000) }, 400, 'context_length_exceeded', null],
  [
    'a temperature that the model ignores',
    { prompt: PROMPT, temperature: 0.7 },
    400,
    'unsupported_parameter',
    'temperature',
  ],
  ['a temperature out of range', { prompt: PROMPT, temperature: 9 }, 400, 'invalid_value', 'temperature'],
  ['a penalty', { prompt: PROMPT, frequency_penalty: 1 }, 400, 'unsupported_parameter', 'frequency_penalty'],
  ['logprobs', { prompt: PROMPT, logprobs: 3 }, 400, 'unsupported_parameter', 'logprobs'],
  ['best_of', { prompt: PROMPT, best_of: 3 }, 400, 'unsupported_parameter', 'best_of'],
  ['a stop of another type', { prompt: PROMPT, stop: 5 }, 400, 'invalid_value', 'stop'],
  ['a stop among others', { prompt: PROMPT, stop: ['a', 5] }, 400, 'invalid_value', 'stop[1]'],
  ['many stops', { prompt: PROMPT, stop: Array(99).fill('a') }, 400, 'invalid_value', 'stop'],
  ['a long stop', { prompt: PROMPT, stop: 'a'.repeat(9999) }, 400, 'invalid_value', 'stop'],
  ['an empty salt', { prompt: PROMPT, cache_salt: '' }, 400, 'invalid_value', 'cache_salt'],
  [
    'stream options without a stream',
    { prompt: PROMPT, stream_options: { include_usage: true } },
    400,
    'invalid_value',
    'stream_options',
  ],
  [
    'unknown stream options',
    { prompt: PROMPT, stream: true, stream_options: { x: 1 } },
    400,
    'unknown_parameter',
    'stream_options.x',
  ],
  ['an unknown name', { prompt: PROMPT, max_token: 5 }, 400, 'unknown_parameter', 'max_token'],
  ['a name of every object', '{"prompt": "a", "__proto__": 5, "constructor": 1}', 400, null, null],
];

describe('a body that cannot be served', () => {
  it.each(REFUSED)('is refused in OpenAI’s form: %s', async (_what, body, status, code, param) => {
    const { post, engine } = await serve();
    const response = await post('/v1/completions', body);
    expect(response.status).toBe(status);
    const { error } = await answerOf(response);
    expect(Object.keys(error)).toEqual(['message', 'type', 'param', 'code']);
    if (code !== null) expect(error).toMatchObject({ code });
    if (param !== null) expect(error).toMatchObject({ param });
    expect(error.message).not.toBe('');
    expect(isEmpty(engine)).toBe(true);
  });

  it('says what was meant by a name', async () => {
    const { post } = await serve();
    const { error } = await answerOf(post('/v1/completions', { prompt: PROMPT, max_token: 5 }));
    expect(error.message).toBe('"max_token" is not a parameter of this server: did you mean max_tokens?');
    const chat = await answerOf(post('/v1/chat/completions', { prompt: PROMPT }));
    expect(chat.error.message).toContain('it belongs to /v1/completions');
  });

  it.each([
    [{ messages: [] }, 'messages'],
    [{ messages: 'hi' }, 'messages'],
    [{ messages: [{ role: 'king', content: '' }] }, 'messages[0].role'],
    [{ messages: [{ role: 'tool', content: '' }] }, 'messages[0].role'],
    [{ messages: [{ role: 'user' }] }, 'messages[0].content'],
    [
      { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: {} }] }] },
      'messages[0].content[0].type',
    ],
    [{ messages: [{ role: 'user', content: '', extra: 1 }] }, 'messages[0].extra'],
    [{ messages: [{ role: 'user', content: 'a' }], tools: [{}] }, 'tools'],
    [
      { messages: [{ role: 'user', content: 'a' }], response_format: { type: 'json_object' } },
      'response_format',
    ],
    [{ messages: [{ role: 'user', content: 'a' }], logprobs: true }, 'logprobs'],
  ])('is refused with the path of its field: %j', async (body, param) => {
    const { post } = await serve();
    const response = await post('/v1/chat/completions', body);
    expect(response.status).toBe(400);
    expect((await answerOf(response)).error.param).toBe(param);
  });

  it('is taken if what is not supported asks for nothing', async () => {
    const { post } = await serve();
    const harmless = {
      temperature: 0,
      top_p: 0.5,
      seed: 7,
      logit_bias: {},
      best_of: 1,
      suffix: '',
      user: 'me',
      logprobs: null,
    };
    const response = await post('/v1/completions', { prompt: PROMPT, max_tokens: 2, ...harmless });
    expect(response.status).toBe(200);
    const chat = {
      tools: [],
      tool_choice: 'none',
      response_format: { type: 'text' },
      store: false,
      metadata: {},
    };
    const messages = [{ role: 'user', content: 'a' }];
    expect((await post('/v1/chat/completions', { messages, max_tokens: 2, ...chat })).status).toBe(200);
  });

  it('that is too large, or of another kind, is refused before it is read', async () => {
    const { post } = await serve({ serve: { maxBodyBytes: 1000 } });
    const large = await post('/v1/completions', { prompt: 'x'.repeat(2000) });
    expect(large.status).toBe(413);
    expect((await answerOf(large)).error.message).toMatch(/more than 1000 bytes/);
    const xml = await post('/v1/completions', '<a/>', { headers: { 'content-type': 'application/xml' } });
    expect(xml.status).toBe(415);
  });

  it('of a route that is not there is answered in the same form', async () => {
    const { url } = await serve();
    const response = await fetch(`${url}/v1/nothing?key=secret`);
    expect(response.status).toBe(404);
    expect((await answerOf(response)).error.message).toBe('there is no GET /v1/nothing here');
  });
});

/** Fails the steps from the second one on. */
const FAILING: Executor = {
  usesTables: false,
  execute(plan) {
    if (plan.step > 1) throw new Error('no more');
    const { numRequests } = plan;
    return { tokens: new Int32Array(numRequests).fill(3), counts: new Int32Array(numRequests).fill(1) };
  },
};

describe('a failure of the server', () => {
  it('is a status before the first byte, and an event after it', async () => {
    const { post, engine } = await serve({ engine: { executor: FAILING } });
    const whole = await post('/v1/completions', { prompt: PROMPT, max_tokens: 9 });
    expect(whole.status).toBe(500);
    const { error } = await answerOf(whole);
    expect(error).toMatchObject({ type: 'server_error', code: 'executor' });
    const events = await eventsOf(
      await post('/v1/completions', { prompt: PROMPT, max_tokens: 9, stream: true }),
    );
    expect(events.at(-1)).toMatchObject({ error: { type: 'server_error', code: 'executor' } });
    expect(isEmpty(engine)).toBe(true);
  });
});

/** A server with one seat, which is taken, and so many places in its queue. */
async function busy(maxQueuedRequests = 2) {
  const { post, engine } = await serve({ engine: { maxQueuedRequests, maxNumSeqs: 1 }, latencyMs: 5 });
  const abort = new AbortController();
  const request = { prompt: PROMPT, max_tokens: 1000, stream: true };
  const running = await post('/v1/completions', request, { signal: abort.signal });
  await running.body?.getReader().read();
  return { post, engine, request, abort };
}

describe('a text that was not tokenized in time', () => {
  const slow = (limit: 'time' | 'memory') => ({
    ...o200k,
    encodeAsync: () => Promise.reject(new AsideLimitError(limit, 'it took more than 20000 ms')),
  });

  it('is the machine’s matter: 503, and when to come back', async () => {
    const prompt = 'word '.repeat(1000);
    const { post } = await serve({ serve: { model: { id: MODEL, vocabulary: slow('time') } } });
    for (const [path, body] of [
      ['/v1/completions', { prompt }],
      ['/v1/chat/completions', { messages: [{ role: 'user', content: prompt }] }],
      ['/tokenize', { prompt }],
    ] as const) {
      const response = await post(path, body);
      expect([path, response.status, response.headers.get('retry-after')]).toEqual([path, 503, '10']);
      expect((await answerOf(response)).error).toMatchObject({ code: 'overloaded', param: null });
    }
    const { post: ask } = await serve({ serve: { model: { id: MODEL, vocabulary: slow('memory') } } });
    const refused = await ask('/v1/completions', { prompt });
    expect([refused.status, (await answerOf(refused)).error.param]).toEqual([400, 'prompt']);
  });
});

describe('a full queue', () => {
  it('answers 429, and says when to come back; nothing of the request stays', async () => {
    const { post, engine, request, abort } = await busy();
    const waiting = [1, 2].map(() => post('/v1/completions', request, { signal: abort.signal }));
    for (const each of waiting) await (await each).body;
    const full = await post('/v1/completions', { ...request, n: 2 });
    expect(full.status).toBe(429);
    expect(Number(full.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    expect(await full.json()).toMatchObject({
      error: { type: 'rate_limit_error', code: 'overloaded', param: null },
    });
    expect(engine.stats().streams).toBe(3);
    abort.abort();
  });

  it('ends the choices that it took before the one that it refuses', async () => {
    const { post, engine, request, abort } = await busy(3);
    const waiting = await post('/v1/completions', request, { signal: abort.signal });
    expect(waiting.status).toBe(200);
    const submitted: string[] = [];
    const { submit } = engine;
    engine.submit = (input) => {
      const stream = submit.call(engine, input);
      submitted.push(stream.id);
      return stream;
    };
    const full = await post('/v1/completions', { ...request, n: 3 });
    expect([full.status, submitted.length]).toEqual([429, 2]);
    expect(engine.stats().streams).toBe(2);
    abort.abort();
  });
});

describe('who may ask', () => {
  it('everything but health needs a key, if there are keys', async () => {
    const { url, post } = await serve({ serve: { apiKeys: ['one', 'two'] } });
    for (const path of ['/health', '/ping']) expect((await fetch(url + path)).status).toBe(200);
    for (const path of ['/v1/models', '/version', '/load', '/is_paused', '/nothing'])
      expect([path, (await fetch(url + path)).status]).toEqual([path, 401]);
    const headers = { authorization: 'Bearer three' };
    const refused = await post('/v1/completions', { prompt: PROMPT }, { headers });
    expect(refused.status).toBe(401);
    expect(await refused.json()).toMatchObject({
      error: { type: 'authentication_error', code: 'invalid_api_key' },
    });
    for (const key of ['one', 'two'])
      expect((await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${key}` } })).status).toBe(
        200,
      );
  });

  it('the page of another site changes nothing, and reads nothing', async () => {
    const { url, post } = await serve();
    const headers = { origin: 'https://evil.example' };
    const refused = await post('/pause', '{}', { headers });
    expect(refused.status).toBe(403);
    expect((await post('/v1/completions', { prompt: PROMPT }, { headers })).status).toBe(403);
    expect(await (await fetch(`${url}/is_paused`)).json()).toEqual({ is_paused: false });
    const read = await fetch(`${url}/v1/models`, { headers });
    expect(read.headers.get('access-control-allow-origin')).toBe(null);
    // Its own page may.
    expect((await post('/resume', '{}', { headers: { origin: url } })).status).toBe(200);
  });
});

describe('clients of old', () => {
  it('are served who speak HTTP/1.0, or send several requests at once', async () => {
    const { url } = await serve();
    const { port, hostname } = new URL(url);
    const body = JSON.stringify({ prompt: PROMPT, max_tokens: 3, stream: true });
    const { connect } = await import('node:net');
    const head = `Host: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n`;
    const old = connect(Number(port), hostname);
    old.write(`POST /v1/completions HTTP/1.0\r\n${head}\r\n${body}`);
    let text = '';
    old.setEncoding('utf8').on('data', (piece: string) => {
      text += piece;
    });
    await once(old, 'end');
    expect(text).toMatch(/\r\n\r\ndata: \{.*data: \[DONE\]\n\n$/s);
    expect(text).not.toContain('transfer-encoding');
    const both = connect(Number(port), hostname);
    text = '';
    const one = `POST /v1/completions HTTP/1.1\r\n${head}\r\n${body}`;
    both.write(one + one);
    both.setEncoding('utf8').on('data', (piece: string) => {
      text += piece;
      if (text.split('[DONE]').length === 3 && text.endsWith('0\r\n\r\n')) both.end();
    });
    await once(both, 'close');
    expect(text.match(/HTTP\/1.1 200 OK/g)).toHaveLength(2);
    expect(text.indexOf('[DONE]')).toBeLessThan(text.lastIndexOf('HTTP/1.1 200 OK'));
  });

  it('keep their connection after a stream', async () => {
    const { url } = await serve();
    const { Agent } = await import('node:http');
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const sockets = new Set<unknown>();
    for (let i = 0; i < 3; i++) {
      const request = httpRequest(`${url}/v1/completions`, {
        method: 'POST',
        agent,
        headers: { 'content-type': 'application/json' },
      });
      request.end(JSON.stringify({ prompt: `${PROMPT} ü 漢`, max_tokens: 5, stream: true, model: MODEL }));
      const [response] = await once(request, 'response');
      sockets.add(response.socket);
      let text = '';
      for await (const piece of response.setEncoding('utf8')) text += piece;
      expect(text.endsWith('data: [DONE]\n\n')).toBe(true);
    }
    expect(sockets.size).toBe(1);
    agent.destroy();
  });
});
