// Each guard of inbox and outbox, by the failure that it prevents.
import { Redis } from 'iovalkey';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { PipelineMessage } from '../../../src/pipeline/index.js';
import { RedisTransport } from '../../../src/pipeline/redis/index.js';
import { FIELD, makeEntry } from '../../../src/pipeline/redis/wire/entry.js';
import { Packer } from '../../../src/pipeline/redis/wire/packer.js';
import { RedisServer, whyNoRedis } from '../../support/redis/redis-server.js';
import { isQuick } from '../../support/share.js';
import { pause, until } from '../../support/waiting.js';
import { HalfOpenProxy } from './support/half-open-proxy.js';
import { FAST, Noted, upTo } from './support/parties.js';

const INBOX = 'blockstep:stage/b';

/** Puts all entries of one inbox into another one, and gives some of them to its reader, who does not hear of it. */
function slip(server: RedisServer, from: string, to: string, numGiven: number): void {
  const script = `for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do
      redis.call('XADD', KEYS[2], '*', entry[2][1], entry[2][2])
    end
    if ARGV[1] == '0' then return end
    local group = redis.call('XINFO', 'GROUPS', KEYS[2])[1][2]
    redis.call('XREADGROUP', 'GROUP', group, 'reader', 'COUNT', ARGV[1], 'STREAMS', KEYS[2], '>')`;
  server.command('eval', script, '2', from, to, `${numGiven}`);
}

/** Joins with a mailbox that is called with each ping. */
async function joinWith(server: RedisServer, hear: (number: number) => void): Promise<void> {
  const transport = await RedisTransport.open({ url: server.url, ...FAST });
  const receive = (message: PipelineMessage): void => {
    if (message.kind === 'ping') hear(message.number);
  };
  const connection = transport.join('stage/b', { receive, lost() {} });
  onTestFinished(() => connection.close());
}

/** Sends one message at a time, each an entry of its own. */
async function oneByOne(party: Noted, to: string, last: number): Promise<void> {
  for (let n = 1; n <= last; n++) {
    const { sent } = party.stats;
    party.ping(to, n);
    await until(() => party.stats.sent > sent, 'a message on the server');
  }
}

describe.skipIf(whyNoRedis !== null)('an inbox', () => {
  it('acknowledges what its party was given, and not before', async () => {
    const server = await RedisServer.start();
    const a = await Noted.join('client/a', server);
    const seen: string[][] = [];
    const pending = (): string => {
      const group = server.command('xinfo', 'groups', INBOX).split('\n')[1];
      return server.command('xpending', INBOX, group).split('\n')[0];
    };
    await joinWith(server, () => seen.push([pending(), server.command('xlen', INBOX)]));
    a.ping('stage/b', 1);
    await until(() => seen.length === 1, 'the message');
    expect(seen).toEqual([['1', '1']]);
    await until(() => pending() === '0' && server.command('xlen', INBOX) === '0', 'the acknowledgement');
  });

  it('that is removed while it is read is made anew, by the same connection', async () => {
    const server = await RedisServer.start();
    const a = await Noted.join('client/a', server);
    const b = await Noted.join('stage/b', server);
    await a.meets(b);
    server.command('del', INBOX);
    await until(() => b.losses.length === 1, 'the loss');
    a.ping('stage/b', 1);
    await b.has(1);
    expect(b.stats).toMatchObject({ connections: 2, lastError: null, losses: 1 });
  });

  it('that is removed between two reads is made anew, by the same connection', async () => {
    const server = await RedisServer.start();
    const a = await Noted.join('client/a', server);
    const numbers: number[] = [];
    await joinWith(server, (number) => {
      numbers.push(number);
      if (number === 1) server.command('del', INBOX);
    });
    a.ping('stage/b', 1);
    await until(() => numbers.length === 1, 'the first message');
    const addresses = (): string =>
      [...server.command('client', 'list').matchAll(/ addr=(\S+).*cmd=xreadgroup/g)]
        .map((each) => each[1])
        .join();
    const before = addresses();
    a.ping('stage/b', 2);
    await until(() => numbers.length === 2, 'the second message');
    await until(() => addresses().split(',').length === 2, 'both readers');
    expect(addresses()).toBe(before);
  });

  it('passes over what was removed before it was acknowledged', async () => {
    const server = await RedisServer.start();
    const a = await Noted.join('client/a', server);
    const b = await Noted.join('stage/b', server);
    await b.connected();
    await oneByOne(a, 'stage/nobody', 3);
    slip(server, 'blockstep:stage/nobody', INBOX, 3);
    // As when the inbox is full.
    server.command('xtrim', INBOX, 'maxlen', '2');
    server.command('client', 'kill', 'type', 'normal');
    await b.has(2);
    expect(b.numbers).toEqual([2, 3]);
    await until(() => server.command('xlen', INBOX) === '0', 'an empty inbox');
  });

  it('drops and counts what a former life of a sender has said, and what it cannot read', async () => {
    const server = await RedisServer.start();
    const former = await Noted.join('client/a', server);
    const b = await Noted.join('stage/b', server);
    await oneByOne(former, 'stage/nobody', 3);
    former.ping('stage/b', 4);
    await b.has(1);
    await former.connection.close();
    const a = await Noted.join('client/a', server);
    a.ping('stage/b', 5);
    await b.has(2);
    slip(server, 'blockstep:stage/nobody', INBOX, 0);
    await until(() => b.stats.stale === 3, 'what is stale');
    const client = new Redis(server.port, '127.0.0.1');
    onTestFinished(() => client.disconnect());
    const packer = await Packer.open(1000);
    const place = { sender: 'stage/new', instance: 'i', epoch: 1, first: 1 };
    await client.xadd(INBOX, '*', FIELD, makeEntry(place, [packer.pack([99, 'new'])], packer));
    await until(() => b.stats.foreign === 1, 'what is foreign');
    expect(b.numbers).toEqual([4, 5]);
    expect(b.losses).toEqual([]);
  });

  it('of a client misses the first message of a sender, too', async () => {
    const server = await RedisServer.start();
    const a = await Noted.join('client/a', server);
    await until(() => server.command('exists', 'blockstep:client/a') === '1', 'the inbox of the client');
    const b = await Noted.join('stage/b', server, { maxQueuedMessages: 1 });
    b.ping('stage/nobody', 1);
    b.ping('client/a', 1);
    expect(b.stats.dropped).toBe(1);
    await until(() => a.losses.length === 1, 'the loss');
    b.ping('client/a', 2);
    await a.has(1);
    expect([a.losses, a.numbers, a.stats.missing]).toEqual([['stage/b'], [2], 1]);
  });

  it('that was taken over is read no more, and its party is told once', async () => {
    const server = await RedisServer.start();
    const proxy = await HalfOpenProxy.start(server.port);
    const client = await Noted.join('client/c', server);
    const former = await Noted.join('stage/b', proxy, { commandTimeoutMs: 20_000 });
    client.ping('stage/b', 1);
    await former.has(1);
    proxy.hold(/xadd/i);
    former.ping('client/c', 1);
    await client.has(1);
    const later = await Noted.join('stage/b', server);
    await later.connected();
    await until(() => former.stats.isReplaced, 'the end of the former one');
    expect(former.stats).toMatchObject({ sent: 0, dropped: 1, queued: 0 });
    proxy.release();
    await pause(150);
    expect(former.losses).toEqual([null]);
    // The answer to the pending command comes after everything was given up.
    expect(former.stats).toMatchObject({ sent: 0, queued: 0, queuedBytes: 0, isConnected: false });
  });
});

describe.skipIf(whyNoRedis !== null)('an outbox', () => {
  it('sends nothing before its party can be answered', async () => {
    const server = await RedisServer.start();
    server.command('acl', 'setuser', 'slow', 'on', '>pw', '~*', '+@all', '-eval');
    const a = await Noted.join('client/a', { url: server.url.replace('redis://', 'redis://slow:pw@') });
    a.ping('stage/b', 1);
    await until(() => a.stats.connections >= 5, 'some tries');
    expect(a.stats).toMatchObject({ sent: 0, queued: 1, lastError: expect.stringMatching(/NOPERM/) });
    // None of them is left open.
    await until(() => (server.command('client', 'list').match(/user=slow/g)?.length ?? 0) <= 2, 'the ends');
    server.command('acl', 'setuser', 'slow', '+eval');
    await until(() => a.stats.sent === 1, 'the message');
  });

  it('keeps inboxes alive: those that it sends to before their stage comes, and its own', async () => {
    const server = await RedisServer.start();
    const a = await Noted.join('client/a', server, { ttlMs: 1000 });
    await oneByOne(a, 'stage/b', 1);
    for (const key of [INBOX, 'blockstep:client/a']) {
      // Nobody but the party sets it again.
      server.command('persist', key);
      await until(() => {
        a.ping('stage/b', 1);
        return Number(server.command('pttl', key)) > 0;
      }, `the renewal of ${key}`);
    }
  });

  it('of a party that was replaced lets the inbox go when the new one has gone', async () => {
    const server = await RedisServer.start();
    const former = await Noted.join('stage/b', server, { ttlMs: 1000 });
    await former.connected();
    const later = await Noted.join('stage/b', server, { ttlMs: 1000 });
    await until(() => former.stats.isReplaced, 'the end of the former one');
    const { connections } = former.stats;
    server.command('client', 'kill', 'type', 'normal');
    await until(() => former.stats.connections > connections, 'a new connection of the former one');
    await later.connected();
    await later.connection.close();
    await until(() => server.command('exists', INBOX) === '0', 'the end of the inbox');
  });

  it('of a client that was replaced leaves the inbox to the new one', async () => {
    const server = await RedisServer.start();
    const former = await Noted.join('client/a', server);
    await former.connected();
    const later = await Noted.join('client/a', server);
    await until(() => former.stats.isReplaced, 'the end of the former one');
    const { connections } = former.stats;
    server.command('client', 'kill', 'type', 'normal');
    await until(() => former.stats.connections > connections, 'a new connection of the former one');
    await former.connection.close();
    const b = await Noted.join('stage/b', server);
    b.ping('client/a', 1);
    await later.has(1);
    expect(later.losses).toEqual([]);
  });

  it('begins anew with a client that went away and came back', async () => {
    const server = await RedisServer.start();
    const b = await Noted.join('stage/b', server);
    for (let life = 1; life <= 2; life++) {
      const a = await Noted.join('client/a', server);
      await a.meets(b);
      b.messages.length = 0;
      b.ping('client/a', 1, 3);
      await a.has(3);
      expect([a.numbers, a.losses]).toEqual([upTo(3), []]);
      await a.connection.close();
      const { undeliverable } = b.stats;
      b.ping('client/a', 4);
      await until(() => b.stats.undeliverable > undeliverable, 'word that the client has gone');
    }
  });

  it.skipIf(isQuick)('loses one message that the server does not take, and goes on', async () => {
    const server = await RedisServer.start('--proto-max-bulk-len', `${2 ** 20}`);
    const a = await Noted.join('stage/a', server);
    const b = await Noted.join('stage/b', server);
    a.ping('stage/b', 1);
    await b.has(1);
    const chunk = { number: 1, tokens: Int32Array.of(1), extras: [new Uint8Array(2 ** 21)], isLast: false };
    a.connection.send('stage/b', { kind: 'chunk', key: 'k', chunk });
    await until(() => a.stats.unsendable === 1, 'the refusal');
    a.ping('stage/b', 2, 9);
    await b.has(9);
    expect(b.numbers).toEqual(upTo(9));
    await until(() => a.stats.queued === 0, 'an empty queue');
    expect(a.stats.queuedBytes).toBe(0);
    expect(b.losses).toEqual(['stage/a']);
  });

  it('sends many messages, and messages larger than a bundle', async () => {
    const server = await RedisServer.start();
    const a = await Noted.join('stage/a', server, { commandTimeoutMs: 5000 });
    const b = await Noted.join('stage/b', server, { commandTimeoutMs: 5000 });
    for (let number = 1; number <= 3; number++) {
      const chunk = { number, tokens: Int32Array.of(1), extras: [new Uint8Array(2 ** 21)], isLast: false };
      a.connection.send('stage/b', { kind: 'chunk', key: 'k', chunk });
    }
    a.ping('stage/b', 1, 2000);
    await b.has(2000);
    expect([b.messages.length, b.numbers, b.losses]).toEqual([2003, upTo(2000), []]);
  });

  it('sends again what the server has not taken, and nothing else', async () => {
    const server = await RedisServer.start();
    const keys = ['~blockstep:client/a', '~blockstep:stage/b'];
    server.command('acl', 'setuser', 'some', 'on', '>pw', '+@all', ...keys);
    const a = await Noted.join('client/a', { url: server.url.replace('redis://', 'redis://some:pw@') });
    const b = await Noted.join('stage/b', server);
    a.connection.send('stage/b', { kind: 'abort', key: 'k'.repeat(2 ** 17) });
    a.ping('stage/c', 1);
    const { connections } = a.stats;
    await until(() => a.stats.connections >= connections + 3, 'some tries');
    server.command('acl', 'setuser', 'some', '~*');
    await until(() => a.stats.sent >= 2, 'both messages');
    a.ping('stage/b', 1);
    await b.has(1);
    expect(b.messages.length).toBe(2);
    const [, read] = /total_net_input_bytes:(\d+)/.exec(server.command('info', 'stats')) ?? [];
    expect(Number(read)).toSatisfy((bytes: number) => bytes > 2 ** 17 && bytes < 2 ** 18);
  });

  it.skipIf(isQuick)('loses one message that the server breaks connections over, and no other', async () => {
    const server = await RedisServer.start();
    const proxy = await HalfOpenProxy.start(server.port);
    proxy.brokenBy = /poison/;
    const a = await Noted.join('stage/a', proxy);
    const b = await Noted.join('stage/b', server);
    const c = await Noted.join('stage/c', server);
    await b.connected();
    await c.connected();
    a.ping('stage/c', 1);
    a.ping('stage/b', 1);
    a.connection.send('stage/b', { kind: 'abort', key: 'poison' });
    // Messages behind it, on the same connection: they have no answer before it breaks.
    for (let number = 2; number <= 9; number++) {
      await pause();
      a.ping('stage/b', number);
      a.ping('stage/c', number);
    }
    await b.has(9);
    await c.has(9);
    expect([b.numbers, b.messages.length, b.losses]).toEqual([upTo(9), 9, ['stage/a']]);
    expect([c.numbers, c.losses]).toEqual([upTo(9), []]);
    await until(() => a.stats.queued === 0, 'an empty queue');
    expect(a.stats).toMatchObject({ unsendable: 1, queuedBytes: 0 });
  });

  it('tells a receiver what is missing at its place, and not later', async () => {
    const server = await RedisServer.start();
    const a = await Noted.join('client/a', server, { maxQueuedBytes: 1024 });
    const b = await Noted.join('stage/b', server);
    await a.meets(b);
    await until(() => a.stats.queued === 0, 'an empty queue');
    a.ping('stage/b', 1);
    a.connection.send('stage/b', { kind: 'abort', key: 'k'.repeat(1024) });
    expect(a.stats.dropped).toBe(1);
    a.ping('stage/b', 2);
    await b.has(2);
    expect([b.losses, b.stats.missing]).toEqual([['client/a'], 1]);
  });

  it('after a broken connection lets the receiver know how much it has sent', async () => {
    const server = await RedisServer.start();
    const proxy = await HalfOpenProxy.start(server.port);
    const a = await Noted.join('client/a', server);
    const b = await Noted.join('stage/b', proxy);
    await a.meets(b);
    proxy.hold(/xreadgroup/i);
    await oneByOne(a, 'stage/b', 1);
    // As where another server takes over, which has not got the last message.
    server.command('xtrim', INBOX, 'maxlen', '0');
    server.command('client', 'kill', 'type', 'normal');
    proxy.forget();
    await until(() => b.losses.length === 1, 'the loss');
    expect([b.losses, b.numbers]).toEqual([['client/a'], []]);
  });

  it('does not keep alive the inbox of a client, which may have gone', async () => {
    const server = await RedisServer.start();
    const b = await Noted.join('stage/b', server);
    server.command('xadd', 'blockstep:client/gone', '*', 'f', 'v');
    server.command('pexpire', 'blockstep:client/gone', '20000');
    await oneByOne(b, 'client/gone', 1);
    expect(Number(server.command('pttl', 'blockstep:client/gone'))).toBeLessThanOrEqual(20_000);
  });

  it('notices a broken connection though it sends nothing', async () => {
    const server = await RedisServer.start();
    const a = await Noted.join('client/a', server);
    await a.connected();
    server.command('client', 'kill', 'type', 'normal');
    await until(() => a.stats.connections === 4, 'two new connections');
  });

  it('of a party that was replaced says nothing more, after a broken connection either', async () => {
    const server = await RedisServer.start();
    const client = await Noted.join('client/c', server);
    const former = await Noted.join('stage/b', server);
    await client.connected();
    former.ping('client/c', 1);
    await client.has(1);
    const later = await Noted.join('stage/b', server);
    await until(() => former.stats.isReplaced, 'the end of the former one');
    const { sent, connections } = former.stats;
    server.command('client', 'kill', 'type', 'normal');
    await until(() => former.stats.connections > connections, 'a new connection');
    later.ping('client/c', 2);
    await client.has(2);
    await pause(50);
    expect([former.stats.sent, client.stats.stale]).toEqual([sent, 0]);
  });

  it('that is closed takes nothing more', async () => {
    const server = await RedisServer.start();
    const transport = await RedisTransport.open({ url: server.url, ...FAST });
    const first = transport.join('client/a', { receive() {}, lost() {} });
    await first.close();
    const second = transport.join('client/a', { receive() {}, lost() {} });
    first.send('stage/b', { kind: 'abort', key: 'k' });
    await first.close();
    expect(Object.keys(transport.stats())).toEqual(['client/a']);
    second.send('stage/b', { kind: 'abort', key: 'k' });
    await until(() => transport.stats()['client/a'].sent === 1, 'the message');
    await second.close();
    expect(server.command('xlen', INBOX)).toBe('1');
  });
});

describe.skipIf(whyNoRedis !== null)('a connection that falls silent and stays open', () => {
  it.each(['select', 'eval', 'xadd', 'xreadgroup'])('is given up and made anew: %s', async (word) => {
    const server = await RedisServer.start();
    const proxy = await HalfOpenProxy.start(server.port);
    proxy.silencedBy = new RegExp(word, 'i');
    const a = await Noted.join('client/a', proxy);
    a.ping('stage/b', 1, 5);
    await until(() => proxy.numSilent === 1, 'the silence');
    const b = await Noted.join('stage/b', server);
    await a.connected();
    await b.has(5);
    b.ping('client/a', 1, 5);
    await a.has(5);
    expect([a.numbers, b.numbers]).toEqual([upTo(5), upTo(5)]);
    expect([...a.losses, ...b.losses]).toEqual([]);
    expect(a.stats.lastError).toMatch(/has not answered for \d+ ms/);
  });

  it('does not keep a party from leaving', async () => {
    const server = await RedisServer.start();
    const proxy = await HalfOpenProxy.start(server.port);
    const a = await Noted.join('client/a', proxy);
    await a.connected();
    proxy.silencedBy = /unlink/i;
    await a.connection.close();
    expect(proxy.numSilent).toBe(1);
  });
});
