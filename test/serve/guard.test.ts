// The host names that a server without a key accepts.
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { hostname } from 'node:os';
import { describe, expect, it } from 'vitest';
import { serve } from './support/served.js';

describe('a server without keys', () => {
  const ask = async (url: string, host: string, path: string, method = 'GET', origin?: string) => {
    const { port } = new URL(url);
    const headers = { host, ...(origin !== undefined && { origin }), 'content-type': 'application/json' };
    const asked = request({ port, host: '127.0.0.1', path, method, headers });
    asked.end(method === 'POST' ? '{}' : undefined);
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    response.resume();
    return response.statusCode;
  };

  it('answers to no name that a stranger can have lead to it', async () => {
    const { url } = await serve({ serve: { allowedHosts: ['LLM.example'] } });
    const { host, port } = new URL(url);
    for (const foreign of [
      'evil.example',
      `evil.example:${port}`,
      '127.0.0.1.evil.example',
      'localhost.evil',
    ])
      for (const [method, path] of [
        ['GET', '/requests'],
        ['GET', '/figures'],
        ['POST', '/pause'],
        ['POST', '/v1/completions'],
      ])
        expect([foreign, await ask(url, foreign, path, method)]).toEqual([foreign, 403]);
    // The page of a stranger asks the site that it came from.
    expect(await ask(url, 'evil.example', '/pause', 'POST', 'http://evil.example')).toBe(403);
    for (const own of [
      host,
      'localhost',
      'LOCALHOST:1',
      'localhost.',
      'a.localhost',
      '[::1]:80',
      '10.0.0.1',
      hostname(),
      'llm.example:443',
    ])
      expect([own, await ask(url, own, '/v1/models')]).toEqual([own, 200]);
    // Load balancers name whom they like, and the document of the page has no data.
    for (const path of ['/health', '/']) expect(await ask(url, 'evil.example', path)).toBe(200);
    // Its own pages, by the name that a proxy has for it.
    expect(await ask(url, host, '/resume', 'POST', 'https://llm.example')).toBe(200);
    expect(await ask(url, host, '/resume', 'POST', 'https://evil.example')).toBe(403);
    expect(await ask(url, host, '/resume', 'POST', 'null')).toBe(403);
  });

  it('is asked by any name where it asks for a key', async () => {
    const { url } = await serve({ serve: { apiKeys: ['one'] } });
    expect(await ask(url, 'evil.example', '/v1/models')).toBe(401);
    const headers = { host: 'any.example', authorization: 'Bearer one' };
    const asked = request(`${url}/v1/models`, { headers }).end();
    const [response] = (await once(asked, 'response')) as [IncomingMessage];
    response.resume();
    expect(response.statusCode).toBe(200);
  });
});

it('refuses names that are none', async () => {
  for (const allowedHosts of [['a:80'], ['http://a'], [''], [5], 'a'])
    await expect(serve({ serve: { allowedHosts: allowedHosts as string[] } })).rejects.toMatchObject({
      code: 'ERR_BLOCKSTEP_BAD_ARG',
      message: expect.stringMatching(/^allowedHosts must be a list of names/),
    });
});
