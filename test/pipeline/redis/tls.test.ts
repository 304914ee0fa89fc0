// A server with TLS, an untrusted server, and a silent server.
import { createServer, type Socket } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { hearSocketErrors } from '../../../src/base/packages/redis-socket.js';
import { startTlsServer, whyNoTls } from '../../support/redis/tls-server.js';
import { pause, until } from '../../support/waiting.js';
import { Noted, upTo } from './support/parties.js';

describe.skipIf(whyNoTls !== null)('a transport over a server that speaks TLS', () => {
  it('carries messages, large ones too', async () => {
    const { url, ca, server } = await startTlsServer();
    const a = await Noted.join('client/a', { url }, { tls: { ca } });
    const b = await Noted.join('stage/b', { url }, { tls: { ca } });
    await a.meets(b);
    a.ping('stage/b', 1, 200);
    const large = new Uint8Array(2 ** 21).fill(7);
    const chunk = { number: 1, tokens: Int32Array.of(1), extras: [large], isLast: false };
    a.connection.send('stage/b', { kind: 'chunk', key: 'k', chunk });
    b.ping('client/a', 1, 10);
    await Promise.all([a.has(10), b.has(200)]);
    await until(() => b.messages.length === 202, 'the chunk');
    const { chunk: came } = b.messages.at(-1) as unknown as { chunk: { extras: [Uint8Array] } };
    expect(Buffer.compare(came.extras[0], large)).toBe(0);
    expect([b.numbers, b.losses, a.losses]).toEqual([upTo(200), [], []]);
    // Nobody speaks to its other port.
    expect(server.command('client', 'list').match(/ addr=(127|\[::1)/g)).toHaveLength(4);
  });

  it('comes back after its connections were broken', async () => {
    const { url, ca, server } = await startTlsServer();
    const a = await Noted.join('client/a', { url }, { tls: { ca } });
    const b = await Noted.join('stage/b', { url }, { tls: { ca } });
    await a.meets(b);
    for (let n = 1; n <= 5; n++) {
      a.ping('stage/b', n);
      server.command('client', 'kill', 'type', 'normal');
    }
    await b.has(5);
    expect([b.numbers, b.losses]).toEqual([upTo(5), []]);
  });

  it('says nothing to a server whose certificate nobody vouches for, or that has another name', async () => {
    const { url, ca, server } = await startTlsServer();
    const a = await Noted.join('client/a', { url });
    const other = url.replace('localhost', '127.0.0.1');
    const b = await Noted.join('client/b', { url: other }, { tls: { ca } });
    for (const party of [a, b]) {
      party.ping('stage/c', 1);
    }
    // On a busy machine a handshake may be given up first, because it takes too long.
    await until(
      () => /self.signed|certificate/i.test(a.stats.lastError ?? ''),
      'the refusal of a certificate',
    );
    await until(() => /IP|altnames/i.test(b.stats.lastError ?? ''), 'the refusal of a name');
    for (const party of [a, b])
      expect(party.stats).toMatchObject({ isConnected: false, connections: 0, queued: 1 });
    expect(server.command('dbsize')).toBe('0');
  });
});

it('a server that never answers the handshake is given up and tried again', async () => {
  const sockets: Socket[] = [];
  const mute = createServer((socket) => {
    sockets.push(socket.on('error', () => {}));
  });
  await new Promise<void>((resolve) => mute.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    mute.close();
  });
  const { port } = mute.address() as { port: number };
  const a = await Noted.join('client/a', { url: `rediss://127.0.0.1:${port}` });
  await until(() => sockets.length >= 4, 'a second try of both lines');
  expect(a.stats).toMatchObject({ isConnected: false, connections: 0 });
  expect(a.stats.lastError).toMatch(/has not answered for 300 ms/);
});

it('whatever else fails about a connection that was given up ends nothing', async () => {
  const { Redis } = await import('iovalkey');
  const mistakes: unknown[] = [];
  const hear = (error: unknown) => void mistakes.push(error);
  process.on('uncaughtException', hear);
  onTestFinished(() => void process.off('uncaughtException', hear));
  const mute = createServer();
  await new Promise<void>((resolve) => mute.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void mute.close());
  const { port } = mute.address() as { port: number };
  const redis = new Redis({ host: '127.0.0.1', port, lazyConnect: true, retryStrategy: () => null });
  const errors: Error[] = [];
  redis.on('error', (error: Error) => errors.push(error));
  hearSocketErrors(redis);
  redis.connect().catch(() => {});
  await until(() => redis.stream !== undefined, 'the socket');
  // A TLS socket emits two errors when its handshake ends twice: first with the connection, then
  // with an alert of the server.
  const socket = redis.stream;
  for (const text of ['first', 'second']) socket.emit('error', new Error(text));
  socket.destroy();
  await pause(5);
  expect([errors.map(({ message }) => message).slice(0, 1), mistakes]).toEqual([['first'], []]);
});
