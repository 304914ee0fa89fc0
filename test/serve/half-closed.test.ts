import { once } from 'node:events';
import type { Server } from 'node:http';
import { connect, type Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { until } from '../support/waiting.js';
import { isEmpty, serve } from './support/served.js';

const BODY = { prompt: 'one two one two one', max_tokens: 8 };
const LONG = { ...BODY, max_tokens: 1900, ignore_eos: true };

function bytesOf(body: object, version = '1.1', path = '/v1/completions'): string {
  const text = JSON.stringify(body);
  return `POST ${path} HTTP/${version}\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`;
}

/** Sends bytes, and then a FIN. */
async function halfClosed(url: string, bytes: string): Promise<Socket> {
  const { port, hostname } = new URL(url);
  const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
  socket.on('error', () => {});
  await once(socket, 'connect');
  socket.end(bytes);
  return socket;
}

/** All that comes until the server closes. */
async function textOf(socket: Socket): Promise<string> {
  let text = '';
  socket.setEncoding('utf8').on('data', (piece: string) => {
    text += piece;
  });
  await once(socket, 'end');
  return text;
}

const INTERIM = 'HTTP/1.1 100 Continue\r\n\r\n';

describe('a client that ends its side of the connection behind its request', () => {
  it.each(['/v1/completions', '/v1/responses'])('gets its answer of %s, whole and streamed', async (path) => {
    const { url, engine } = await serve({ latencyMs: 2 });
    const body = path === '/v1/completions' ? BODY : { input: BODY.prompt, max_output_tokens: 8 };
    const whole = await textOf(await halfClosed(url, bytesOf(body, '1.1', path)));
    expect(whole).toMatch(/^HTTP\/1.1 200 OK\r\n.*"(?:completion|output)_tokens":8/s);
    const streamed = await textOf(await halfClosed(url, bytesOf({ ...body, stream: true }, '1.1', path)));
    expect(streamed).toMatch(/^HTTP\/1.1 200 OK\r\n/);
    expect(streamed.endsWith('0\r\n\r\n')).toBe(true);
    expect(engine.stats().scheduler.finished).toMatchObject({ length: 2, abort: 0 });
  });

  it.each([true, false])('gets it however long it waits, streamed %s', async (stream) => {
    const { url, engine, post } = await serve({ engine: { maxNumSeqs: 1 } });
    await post('/pause?mode=keep', '');
    const client = await halfClosed(url, bytesOf({ ...BODY, stream }));
    let text = '';
    client.setEncoding('utf8').on('data', (piece: string) => {
      text += piece;
    });
    // Bytes that mean nothing, by which the server learns whether somebody is there.
    const probe = stream ? '3\r\n:\n\n\r\n' : INTERIM;
    await until(() => text.split(probe).length > 3, 'three probes');
    expect(engine.stats().streams).toBe(1);
    await post('/resume', '');
    await once(client, 'end');
    expect(text.replaceAll(INTERIM, '')).toMatch(/^HTTP\/1.1 200 OK\r\n/);
    expect(text).toContain('"finish_reason":"length"');
    expect(isEmpty(engine)).toBe(true);
  });

  it.each([true, false])('and leaves then, is forgotten, streamed %s', async (stream) => {
    const { url, engine } = await serve({ latencyMs: 2 });
    const client = await halfClosed(url, bytesOf({ ...LONG, stream }));
    await until(() => engine.numRunning === 1, 'a running request');
    client.destroy();
    await until(() => isEmpty(engine), 'an empty engine');
    expect(engine.stats().scheduler.finished).toMatchObject({ length: 0, abort: 1 });
  });

  it.each([true, false])(
    'and whose whole connection closes with one FIN, is forgotten, streamed %s',
    async (stream) => {
      const { url, engine, post } = await serve({ engine: { maxNumSeqs: 1 } });
      await post('/pause?mode=keep', '');
      const { port, hostname } = new URL(url);
      const client = connect(Number(port), hostname);
      client.write(bytesOf({ ...LONG, stream }));
      await until(() => engine.stats().streams === 1, 'a waiting request');
      client.destroy();
      await until(() => engine.stats().streams === 0, 'its end');
    },
  );

  it('of HTTP/1.0 has left, since nothing could be sent to it before its answer', async () => {
    const { url, engine } = await serve({ latencyMs: 2 });
    const client = await halfClosed(url, bytesOf(LONG, '1.0'));
    expect(await textOf(client)).toBe('');
    await until(() => isEmpty(engine), 'an empty engine');
    expect(engine.stats().scheduler.finished.abort).toBe(1);
  });

  it('asks for several answers on one connection, and gets all of them', async () => {
    const { url } = await serve({ latencyMs: 2 });
    const text = await textOf(
      await halfClosed(url, bytesOf(BODY) + bytesOf({ ...BODY, stream: true }) + bytesOf(BODY)),
    );
    expect(text.match(/HTTP\/1.1 200 OK/g)).toHaveLength(3);
    expect(text.match(/"finish_reason":"length"/g)).toHaveLength(3);
  });

  it('is another route’s own matter', async () => {
    let closed = 0;
    const { url, app } = await serve({
      add: (app) =>
        app.post('/own', (_request, reply) => {
          reply.hijack();
          reply.raw.once('close', () => closed++);
        }),
    });
    expect(await textOf(await halfClosed(url, bytesOf({}, '1.1', '/own')))).toBe('');
    await until(() => closed === 1, 'its end');
    await textOf(await halfClosed(url, bytesOf(BODY)));
    expect((app.server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen).toBe(false);
  });
});
