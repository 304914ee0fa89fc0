// Refusals before a route is called, and bodies.
import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import { readJson } from '../../src/serve/entry/json-body.js';
import { appOptions } from '../../src/serve/index.js';
import { answerOf, serve } from './support/served.js';

/** Sends bytes as they are. @returns status and body of the answer */
async function raw(url: string, bytes: string): Promise<{ status: number; error: { message: string } }> {
  const { port, hostname } = new URL(url);
  const socket = connect(Number(port), hostname);
  let text = '';
  socket.setEncoding('utf8').on('data', (piece: string) => {
    text += piece;
  });
  socket.write(bytes);
  await once(socket, 'close');
  const [head, body] = text.split('\r\n\r\n');
  return { status: Number(head.split(' ')[1]), ...(JSON.parse(body) as { error: { message: string } }) };
}

describe('what no route is asked for', () => {
  it('is refused in OpenAI’s form, where Node and Fastify refuse by themselves', async () => {
    const { url } = await serve({ app: { ...appOptions } });
    const form = { type: 'invalid_request_error', param: null, code: null };
    const end = 'Host: localhost\r\nConnection: close\r\n\r\n';
    expect(await raw(url, 'nonsense\r\n\r\n')).toMatchObject({ status: 400, error: form });
    expect(await raw(url, `GET / HTTP/1.1\r\nX: ${'x'.repeat(20_000)}\r\n${end}`)).toMatchObject({
      status: 431,
      error: form,
    });
    expect(await raw(url, `GET /v1/models/%zz HTTP/1.1\r\n${end}`)).toMatchObject({
      status: 400,
      error: form,
    });
    expect(await raw(url, `POST /v1/completions HTTP/1.1\r\nExpect: tea\r\n${end}`)).toMatchObject({
      status: 417,
      error: { ...form, message: 'Expect must be "100-continue", got "tea"' },
    });
  });

  it.each([[], ['one']])(
    'is refused without a host, as HTTP/1.1 wants one, with the keys %j',
    async (...apiKeys) => {
      const { url } = await serve({ app: { ...appOptions }, serve: { apiKeys } });
      const end = 'Connection: close\r\n\r\n';
      for (const path of ['/health', '/v1/models', '/nothing', '/v1/%zz'])
        for (const method of ['GET', 'POST'])
          expect(await raw(url, `${method} ${path} HTTP/1.1\r\n${end}`)).toMatchObject({
            status: 400,
            error: { type: 'invalid_request_error' },
          });
      expect(await raw(url, `GET /v1/models HTTP/1.1\r\n${end}`)).toMatchObject({
        error: { code: 'missing_host', message: 'the request has no Host header, which HTTP/1.1 requires' },
      });
      // HTTP/1.0 has no such header.
      expect(await raw(url, 'GET /v1/models HTTP/1.0\r\n\r\n')).toMatchObject(
        apiKeys.length === 0 ? { status: 200 } : { status: 401 },
      );
    },
  );

  it.each<[string, string, RequestInit, number, string | null, RegExp]>([
    [
      'another method',
      '/v1/completions',
      { method: 'GET' },
      405,
      'method_not_allowed',
      /^\/v1\/completions takes POST, got GET$/,
    ],
    [
      'a path that is none',
      '/v1/nothing',
      { method: 'POST', body: '{}' },
      404,
      'not_found',
      /^there is no POST \/v1\/nothing here$/,
    ],
    [
      'a form',
      '/v1/completions',
      { body: 'prompt=a', headers: { 'content-type': 'text/plain' } },
      415,
      'unsupported_media_type',
      /send Content-Type: application\/json, got Content-Type: text\/plain$/,
    ],
    [
      'a large body',
      '/v1/completions',
      { body: JSON.stringify({ prompt: 'a'.repeat(2000) }) },
      413,
      'body_too_large',
      /^the body has more than 1000 bytes; --max-body-bytes/,
    ],
    [
      'other bytes',
      '/v1/completions',
      { body: Buffer.from('{"prompt": "\xff"}', 'latin1') },
      400,
      'invalid_json',
      /not valid UTF-8/,
    ],
    [
      'half of it',
      '/v1/completions',
      { body: '{"prompt": ' },
      400,
      'invalid_json',
      /^the body is not JSON: /,
    ],
    ['nothing', '/v1/completions', { body: '' }, 400, 'invalid_json', /^the body is empty/],
    [
      '__proto__',
      '/v1/completions',
      { body: '{"prompt": "a", "__proto__": {"n": 5}}' },
      400,
      'unknown_parameter',
      /^"__proto__" is not a parameter/,
    ],
    ['null', '/v1/completions', { body: '{"prompt": null}' }, 400, 'invalid_value', /got null$/],
    ['no prompt', '/v1/completions', { body: '{}' }, 400, 'invalid_value', /got nothing$/],
    [
      'more choices than may queue',
      '/v1/completions',
      { body: '{"prompt": "a", "n": 4}' },
      400,
      'invalid_value',
      /^n must be at most 3 choices in all/,
    ],
  ])('%s', async (_what, path, init, status, code, message) => {
    const { url } = await serve({ engine: { maxQueuedRequests: 3 }, serve: { maxBodyBytes: 1000 } });
    const headers = { 'content-type': 'application/json', ...(init.headers as object) };
    const response = await fetch(url + path, { method: 'POST', ...init, headers });
    const { error } = await answerOf(response);
    expect([response.status, error.code]).toEqual([status, code]);
    expect(error.message).toMatch(message);
    expect(response.headers.get('allow')).toBe(status === 405 ? 'POST' : null);
  });
});

describe('a body that is too large', () => {
  it('is taken before it is refused, so that its client reads why', async () => {
    const { url } = await serve();
    const large = Buffer.alloc(2 ** 25, 'a');
    const headers = { 'content-type': 'application/json' };
    const chunked = () =>
      new ReadableStream({
        start(stream) {
          for (let i = 0; i < large.length; i += 2 ** 20) stream.enqueue(large.subarray(i, i + 2 ** 20));
          stream.close();
        },
      });
    for (const body of [large, chunked()]) {
      const response = await fetch(`${url}/v1/completions`, {
        method: 'POST',
        headers,
        body,
        duplex: 'half',
      } as RequestInit);
      expect([response.status, (await answerOf(response)).error.code]).toEqual([413, 'body_too_large']);
    }
  });

  it('is taken as far as it is of use', async () => {
    const { url } = await serve();
    const { port, hostname } = new URL(url);
    const socket = connect(Number(port), hostname).on('error', () => {});
    let text = '';
    socket.setEncoding('utf8').on('data', (piece: string) => {
      text += piece;
    });
    socket.write(
      `POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${2 ** 40}\r\n\r\n`,
    );
    const piece = Buffer.alloc(2 ** 20, 'a');
    const send = (): void => {
      while (!socket.destroyed && socket.write(piece));
      socket.once('drain', send);
    };
    send();
    await new Promise((resolve) => socket.once('close', resolve));
    expect(text.split(' ')[1] ?? '413').toBe('413');
    expect(socket.bytesWritten).toBeLessThan(2 ** 28);
  });
});

describe('a body', () => {
  const read = (text: string): Promise<unknown> => readJson(Buffer.from(text));

  it('is read as JSON.parse does', async () => {
    for (const text of [
      '1',
      '"é"',
      '{"a": [1, {"b": null}]}',
      JSON.stringify({ text: 'a "quoted\\" [, text'.repeat(10_000) }),
      // Several pieces, which end within characters.
      JSON.stringify({ text: `a${'漢'.repeat(750_000)}😀` }),
    ])
      expect(await read(text)).toEqual(JSON.parse(text));
    expect(Object.keys((await read('{"__proto__": 1}')) as object)).toEqual(['__proto__']);
  });

  it('is refused if it has more values than any request needs, which would take long to read', async () => {
    const list = (item: string, count: number): string =>
      `[${Array.from({ length: count }, () => item).join()}]`;
    expect(((await read(list('1', 262_145))) as unknown[]).length).toBe(262_145);
    await expect(read(list('1', 262_146))).rejects.toThrow('more than 262144 values');
    await expect(read(list('[]', 65_536))).rejects.toThrow('more than 65536 objects, lists and fields');
    await expect(read('['.repeat(1_000_000))).rejects.toThrow(
      'more than 1000 objects and lists within each other',
    );
    await expect(read('['.repeat(1025) + ']'.repeat(1025))).rejects.toThrow(
      'more than 1000 objects and lists',
    );
    expect(await read(`${'[{"a":'.repeat(500)}1${'}]'.repeat(500)}`)).toBeDefined();
    expect(await read(list('[[]]', 20_000))).toHaveLength(20_000);
    // The content of strings does not count.
    expect(await read(JSON.stringify('[,:{"\\'.repeat(100_000)))).toHaveLength(600_000);
    await expect(read(`"${'a'.repeat(100_000)}`)).rejects.toThrow(/^the body is not JSON/);
  });
});
