// Events are read from pieces of any size; addresses, secrets, errors and metrics are parsed.
import { describe, expect, it } from 'vitest';
import { oneLine, wordsOf } from '../../../src/cli/replay/http/client/call-failure.js';
import { EventReader } from '../../../src/cli/replay/http/client/event-reader.js';
import { HttpClient } from '../../../src/cli/replay/http/client/http-client.js';
import { servedModel } from '../../../src/cli/replay/http/client/served-model.js';
import { countsIn, growthOf } from '../../../src/cli/replay/http/client/server-counts.js';
import { readServerUrl } from '../../../src/cli/replay/http/client/server-url.js';
import { withoutSecrets } from '../../../src/cli/replay/server-flags.js';
import { type FakeOptions, fakeServer } from './fake-server.js';

describe('servedModel', () => {
  it('rejects with a code where a server is of no use, and is interrupted', async () => {
    const { signal } = new AbortController();
    const at = async (options: FakeOptions) =>
      new HttpClient(readServerUrl((await fakeServer(options)).url, undefined));
    expect(await servedModel(await at({}), undefined, signal)).toBe('fake-model');
    for (const text of ['{"data": []}', '{"data": [{}, null]}', 'null', '<html>']) {
      const client = await at({ models: (response) => response.end(text) });
      await expect(servedModel(client, undefined, signal)).rejects.toMatchObject({
        code: 'ERR_BLOCKSTEP_SERVER',
      });
      expect(await servedModel(client, 'mine', signal)).toBe('mine');
    }
    const silent = await at({ models: () => {} });
    await expect(servedModel(silent, undefined, AbortSignal.abort())).rejects.toThrow('interrupted');
  });
});

/** The events that are read from a text in these pieces. */
function read(...pieces: string[]): string[] {
  const found: string[] = [];
  const reader = new EventReader((data) => found.push(data));
  for (const piece of pieces) reader.push(piece);
  return found;
}

describe('EventReader', () => {
  it.each<[string, string[]]>([
    ['data: a\n\ndata: b\n\n', ['a', 'b']],
    ['data: a\r\n\r\ndata:b\r\n\r\n', ['a', 'b']],
    ['data: a\r\rdata:  b\r\r', ['a', ' b']],
    ['data: one\ndata: two\n\n', ['one\ntwo']],
    ['data: one\r\ndata: two\r\n\r\n', ['one\ntwo']],
    [': comment\nevent: x\nid: 1\nretry: 5\ndata\n\n', []],
    ['data:\n\n', ['']],
    ['data: not ended\n', []],
    ['\n\n\ndata: a\n\n\n\n', ['a']],
    ['data: [DONE]\n\n', ['[DONE]']],
  ])('reads %j in whatever pieces', (text, expected) => {
    expect(read(text)).toEqual(expected);
    expect(read(...text)).toEqual(expected);
    for (let at = 1; at < text.length; at++)
      expect(read(text.slice(0, at), text.slice(at))).toEqual(expected);
  });
});

describe('readServerUrl', () => {
  it.each([
    ['http://127.0.0.1:8000', 'http://127.0.0.1:8000'],
    ['http://127.0.0.1:8000/', 'http://127.0.0.1:8000'],
    ['http://a/v1', 'http://a'],
    ['http://a/v1/', 'http://a'],
    ['https://a/llm/v1//', 'https://a/llm'],
    ['https://a/llm', 'https://a/llm'],
    ['http://[::1]:80/', 'http://[::1]'],
  ])('takes %s as %s', (text, base) => {
    expect(readServerUrl(text, undefined)).toEqual({ base, authorization: null });
    expect(readServerUrl(text, 'k')).toEqual({ base, authorization: 'Bearer k' });
  });

  it('takes credentials out of the address', () => {
    for (const user of ['me:p%40ss', 'me:%zz']) {
      const { base, authorization } = readServerUrl(`http://${user}@a:1`, undefined);
      expect(base).toBe('http://a:1');
      expect(authorization).toMatch(/^Basic \w+=*$/);
    }
  });
});

it('hides secrets of a command line, and nothing else', () => {
  const words = [
    'replay',
    '--api-key',
    'k1',
    '--api-key=k2',
    '--url',
    'http://u:p@h/x',
    '--url=http://u@h',
    '--seed',
    '1',
  ];
  expect(withoutSecrets(words).join(' ')).toBe(
    'replay --api-key *** --api-key=*** --url http://h/x --url=http://h --seed 1',
  );
  expect(withoutSecrets(['--url', 'http://h/a@b'])).toEqual(['--url', 'http://h/a@b']);
  // Arguments that are refused are shown too.
  expect(withoutSecrets(['--url', 'u:p@h'])).toEqual(['--url', 'h']);
});

describe('what a server says', () => {
  it.each([
    ['{"error": {"message": "full"}}', 'full'],
    ['{"error": "full"}', 'full'],
    ['{"object": "error", "message": "too long"}', 'too long'],
    ['{"detail": "Not Found"}', 'Not Found'],
    ['{"other": 1}', '{"other": 1}'],
    ['<html>\n  gone', '<html> gone'],
    ['', ''],
  ])('is found in %j', (body, words) => {
    expect(wordsOf(body)).toBe(words);
  });

  it('is short, and nothing that a terminal would obey', () => {
    expect(wordsOf('x'.repeat(5000))).toHaveLength(200);
    expect(oneLine('a\u001b]0;title\u0007\r\n\u202eb\u009b1m')).toBe('a ]0;title b 1m');
  });

  it('in its metrics is summed up over engines; shares are not', () => {
    const text = `vllm:kv_cache_usage_perc{engine="0"} 0.25\nvllm:kv_cache_usage_perc{engine="1"} 0.5\nvllm:num_preemptions 2\nvllm:num_preemptions_total 3\nvllm:generation_tokens_total NaN`;
    expect(countsIn(text)).toEqual({ kvCacheUsage: 0.5, preemptions: 5 });
    expect(growthOf({ preemptions: 1 }, null)).toBeNull();
    expect(growthOf({ preemptions: 1 }, { preemptions: 4, prefixCacheHits: 3 })).toEqual({ preemptions: 3 });
  });
});
