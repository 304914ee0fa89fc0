// Clients that disconnect in every phase, and that do not read.
import { once } from 'node:events';
import type { Server } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import type { Engine, Executor } from '../../src/index.js';
import { o200k } from '../../src/serve/index.js';
import { Random } from '../support/engine-bench.js';
import { pause, until } from '../support/waiting.js';
import { isEmpty, serve } from './support/served.js';

const BODY = { prompt: 'one two one two one', max_tokens: 1500, ignore_eos: true };

/** A request as bytes. */
function bytesOf(body: object, path = '/v1/completions'): string {
  const text = JSON.stringify(body);
  return `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
}

async function open(url: string, text: string): Promise<Socket> {
  const { port, hostname } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {});
  await once(socket, 'connect');
  socket.write(text);
  return socket;
}

describe('a client that disconnects', () => {
  it.each([
    ['while it waits for a place', true],
    ['while it waits for a place', false],
  ])('%s is forgotten at once, streamed %s', async (_when, stream) => {
    const { url, engine } = await serve({ engine: { maxNumSeqs: 1 }, latencyMs: 2 });
    const first = await open(url, bytesOf({ ...BODY, stream: true }));
    await until(() => engine.numRunning === 1, 'a running request');
    const second = await open(url, bytesOf({ ...BODY, stream }));
    await until(() => engine.stats().streams === 2, 'a waiting request');
    second.destroy();
    await until(() => engine.stats().streams === 1, 'its end');
    expect(engine.numRunning).toBe(1);
    first.destroy();
    await until(() => isEmpty(engine), 'an empty engine');
  });

  it.each([true, false])('while it is served is forgotten at once, streamed %s', async (stream) => {
    const { url, engine } = await serve({ latencyMs: 2 });
    const socket = await open(url, bytesOf({ ...BODY, n: 3, stream }));
    await until(() => engine.numRunning === 3, 'running requests');
    socket.destroy();
    await until(() => isEmpty(engine), 'an empty engine');
    expect(engine.stats().scheduler.finished.abort).toBe(3);
  });

  it('in the middle of its body, or before it, leaves nothing', async () => {
    const { url, engine } = await serve();
    const text = bytesOf({ ...BODY, stream: true });
    for (const length of [0, 10, text.length - 5]) (await open(url, text.slice(0, length))).destroy();
    await pause(20);
    expect(isEmpty(engine)).toBe(true);
  });

  it('at a random moment, a thousand times: nothing is left, and memory stays', async () => {
    const { url, engine, app } = await serve({ engine: { maxNumSeqs: 32 }, latencyMs: 1 });
    const random = new Random(5);
    const texts = [
      bytesOf({ ...BODY, stream: true }),
      bytesOf({ ...BODY, stream: true, n: 2, stop: 'never' }),
      bytesOf(BODY),
      bytesOf({ ...BODY, max_tokens: 3, stream: true }),
    ];
    const free = engine.stats().scheduler.freeBlocks;
    const cut = async (): Promise<void> => {
      const text = texts[random.below(texts.length)];
      const socket = await open(url, random.below(8) === 0 ? text.slice(0, random.below(text.length)) : text);
      socket.resume();
      for (let left = random.below(6); left > 0; left--) await pause(1);
      if (random.below(2) === 0) socket.resetAndDestroy();
      else socket.destroy();
    };
    const heaps: number[] = [];
    for (let i = 0; i < 1000; i += 50) {
      await Promise.all(Array.from({ length: 50 }, cut));
      if (i === 450) heaps.push(await usedHeap(engine));
    }
    // Messages of the last clients may still be on their way.
    while ((await connections(app.server)) > 0) await pause(1);
    await until(() => isEmpty(engine), 'an empty engine');
    heaps.push(await usedHeap(engine));
    // 500 requests that stayed would be some MiB: each has a stream, a response and a socket.
    expect(heaps[1] - heaps[0]).toBeLessThan(1.5 * 2 ** 20);
    engine.verify();
    engine.resetPrefixCache();
    expect(engine.stats().scheduler.freeBlocks).toBe(free);
    expect(await (await fetch(`${url}/load`)).json()).toEqual({ server_load: 0 });
    expect(process.listenerCount('warning')).toBeLessThan(5);
  });
});

const [ONE] = o200k.encode(' one');
const LARGE = { maxModelLen: 100_000, numBlocks: 20_000 };

/** Says " one" for ever, at no cost. */
const ALWAYS_ONE: Executor = {
  usesTables: false,
  execute({ numRequests, maxOutputTokens }) {
    const counts = Int32Array.from(maxOutputTokens.subarray(0, numRequests));
    return { counts, tokens: new Int32Array(counts.reduce((sum, count) => sum + count, 0)).fill(ONE) };
  },
};

describe('a client that does not read', () => {
  it('stalls nobody, and holds at most its own text', async () => {
    const { url, engine, post } = await serve({ engine: { ...LARGE, executor: ALWAYS_ONE } });
    const lazy = await open(url, bytesOf({ ...BODY, max_tokens: 90_000, stream: true }));
    lazy.pause();
    await until(() => engine.numRunning === 1, 'a running request');
    for (let i = 0; i < 3; i++) {
      const response = await post('/v1/completions', { ...BODY, max_tokens: 50 });
      expect(response.status).toBe(200);
    }
    // The answer is generated to its end, although nobody reads it.
    await until(() => isEmpty(engine), 'an empty engine');
    let text = '';
    lazy.setEncoding('utf8').on('data', (piece: string) => {
      text += piece;
    });
    lazy.resume();
    await until(() => text.endsWith('0\r\n\r\n'), 'the whole text');
    const content = [...text.matchAll(/"text":"([^"]*)"/g)].map(([, piece]) => piece).join('');
    expect(content.split(' ')).toHaveLength(90_000 + 1);
    lazy.destroy();
  });
});

/** Bytes that JavaScript uses once nothing is under way. */
async function usedHeap(engine: Engine): Promise<number> {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  await until(() => isEmpty(engine), 'an empty engine');
  for (let i = 0; i < 3; i++) {
    await pause(20);
    collect();
  }
  return process.memoryUsage().heapUsed;
}

function connections(server: Server): Promise<number> {
  return new Promise((resolve) => server.getConnections((_error, count) => resolve(count)));
}
