import { createServer, type Socket } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { startTlsServer, whyNoTls } from '../../support/redis/tls-server.js';
import { until } from '../../support/waiting.js';
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
      await until(() => party.stats.lastError !== null, 'the error');
      expect(party.stats).toMatchObject({ isConnected: false, connections: 0, queued: 1 });
    }
    expect(a.stats.lastError).toMatch(/self.signed|certificate/i);
    expect(b.stats.lastError).toMatch(/IP|altnames/i);
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
