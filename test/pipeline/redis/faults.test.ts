// A server that is killed, emptied, stopped or refuses; queues that are full; the end of a
// transport.
import { describe, expect, it, onTestFinished } from 'vitest';
import { RedisServer, whyNoRedis } from '../../support/redis/redis-server.js';
import { pause, until } from '../../support/waiting.js';
import { Noted, upTo } from './support/parties.js';

async function pair(server: RedisServer, options: object = {}): Promise<[Noted, Noted]> {
  const a = await Noted.join('client/a', server, options);
  const b = await Noted.join('stage/b', server, options);
  a.ping('stage/b', 1);
  // A party whose message arrives has an inbox. A message to a client without an inbox has no
  // receiver.
  await b.has(1);
  b.ping('client/a', 1);
  await a.has(1);
  return [a, b];
}

describe.skipIf(whyNoRedis !== null)('a transport whose server has trouble', () => {
  it('keeps what is sent while the server is away, and says that what was there may have gone', async () => {
    const server = await RedisServer.start();
    const [a, b] = await pair(server);
    await server.stop();
    a.ping('stage/b', 2, 50);
    b.ping('client/a', 2, 50);
    await pause(100);
    a.ping('stage/b', 51, 60);
    expect(a.stats).toMatchObject({ queued: 59, isConnected: false });
    await server.start();
    await b.has(60);
    expect(b.numbers).toEqual(upTo(60));
    expect(b.losses).toEqual([null]);
    await until(() => a.losses.length > 0, 'the loss of the client');
    expect(a.losses[0]).toBe(null);
    b.ping('client/a', 51);
    await until(() => a.numbers.at(-1) === 51, 'what was sent last');
    // Messages that the stage sent before the client's inbox was there again had no receiver.
    expect(a.numbers.slice(1)).toEqual(upTo(51).slice(-(a.numbers.length - 1)));
  });

  it('a server that was emptied has lost messages, whether any came behind or not', async () => {
    const server = await RedisServer.start();
    const [a, b] = await pair(server);
    server.command('flushall');
    await until(() => a.losses.length > 0 && b.losses.length > 0, 'the losses');
    expect(a.losses).toEqual([null]);
    expect(b.losses).toEqual([null]);
    a.ping('stage/b', 2, 5);
    b.ping('client/a', 2, 5);
    await Promise.all([a.has(5), b.has(5)]);
    expect([a.numbers, b.numbers]).toEqual([upTo(5), upTo(5)]);
  });

  it('a server that hangs and goes on loses and doubles nothing', async () => {
    const server = await RedisServer.start();
    const [a, b] = await pair(server);
    for (let round = 0; round < 3; round++) {
      server.signal('SIGSTOP');
      const first = 2 + 200 * round;
      a.ping('stage/b', first, first + 99);
      await pause(500);
      a.ping('stage/b', first + 100, first + 199);
      server.signal('SIGCONT');
      await b.has(first + 199);
    }
    expect(b.numbers).toEqual(upTo(601));
    expect([...a.losses, ...b.losses]).toEqual([]);
    expect(a.stats.connections).toBeGreaterThan(2);
  });

  it('drops what is beyond its bound, and the receiver learns it even if nothing comes behind', async () => {
    const server = await RedisServer.start();
    const [a, b] = await pair(server, { maxQueuedMessages: 20 });
    server.signal('SIGSTOP');
    a.ping('stage/b', 2, 100);
    await pause(20);
    expect(a.stats).toMatchObject({ dropped: 79, queued: 20 });
    server.signal('SIGCONT');
    await until(() => b.losses.length > 0, 'the loss');
    expect(b.losses).toEqual(['client/a']);
    expect(b.stats.missing).toBe(79);
    expect(b.numbers).toEqual(upTo(21));
    a.ping('stage/b', 101);
    await b.has(22);
    expect(b.losses).toHaveLength(1);
  });

  it('bytes are bounded, too', async () => {
    const server = await RedisServer.start();
    const a = await Noted.join('client/a', server, { maxQueuedBytes: 1024 });
    a.ping('stage/b', 1, 1000);
    const { queued, queuedBytes, dropped } = a.stats;
    expect(queuedBytes).toBeLessThanOrEqual(1024);
    expect(queued + dropped).toBe(1000);
    await until(() => a.stats.queued === 0, 'an empty queue');
    expect(a.stats.queuedBytes).toBe(0);
  });

  it('an inbox that nobody reads stays bounded: the oldest messages go', async () => {
    const server = await RedisServer.start('--stream-node-max-entries', '5');
    const a = await Noted.join('client/a', server, { maxInboxEntries: 20 });
    for (let n = 1; n <= 100; n++) {
      a.ping('stage/b', n);
      await until(() => a.stats.sent === n, 'a message on the server');
    }
    const length = Number(server.command('xlen', 'blockstep:stage/b'));
    expect(length).toBeGreaterThanOrEqual(20);
    expect(length).toBeLessThan(30);
    const b = await Noted.join('stage/b', server);
    await b.has(length);
    expect(b.numbers).toEqual(upTo(100, 101 - length));
  });

  it('a wrong password is no error but a state, which can be seen and left', async () => {
    const server = await RedisServer.start('--requirepass', 'right');
    const a = await Noted.join('client/a', { url: server.url.replace('redis://', 'redis://:wrong@') });
    a.ping('stage/b', 1);
    await until(() => a.stats.lastError !== null, 'the error');
    expect(a.stats).toMatchObject({ isConnected: false, queued: 1, connections: 0 });
    expect(a.stats.lastError).toMatch(/WRONGPASS|invalid password/);
    const b = await Noted.join('client/b', { url: server.url.replace('redis://', 'redis://:right@') });
    b.ping('client/b', 1);
    await b.has(1);
  });

  it('a key of somebody else where an inbox should be is not touched', async () => {
    const server = await RedisServer.start();
    server.command('set', 'blockstep:stage/b', 'mine');
    const a = await Noted.join('client/a', server);
    a.ping('stage/b', 1);
    await until(() => a.stats.unsendable === 1, 'the refusal');
    expect(a.stats.lastError).toMatch(/WRONGTYPE/);
    const b = await Noted.join('stage/b', server);
    await until(() => b.stats.lastError !== null, 'the error');
    expect(server.command('get', 'blockstep:stage/b')).toBe('mine');
  });

  it('leaves with what was queued, and nothing of it keeps the process alive', async () => {
    const server = await RedisServer.start();
    const kept = (): number =>
      process.getActiveResourcesInfo().filter((kind) => /TCP|Timeout/.test(kind)).length;
    const before = kept();
    const [a, b] = await pair(server);
    a.ping('stage/b', 2, 9000);
    await a.connection.close();
    expect(a.stats).toBeUndefined();
    await b.has(9000);
    expect(server.command('exists', 'blockstep:client/a')).toBe('0');
    await b.connection.close();
    await b.connection.close();
    expect(server.command('exists', 'blockstep:stage/b')).toBe('1');
    // The timer of this very wait counts, too.
    await until(() => kept() <= before + 1, 'the end of all connections and timers');
  });

  it('leaves in a bounded time, whatever the server does', async () => {
    const server = await RedisServer.start();
    const [a, b] = await pair(server, { closeMs: 200 });
    onTestFinished(() => server.signal('SIGCONT'));
    server.signal('SIGSTOP');
    a.ping('stage/b', 2, 50);
    await a.connection.close();
    await server.stop();
    await b.connection.close();
  });
});
