// Order, lives of a name, the data that stays on the server, broken connections.
import { describe, expect, it } from 'vitest';
import type { ReferenceExecutor } from '../../../src/executors/reference/reference-executor.js';
import { Pipeline, StageServer } from '../../../src/pipeline/index.js';
import { RedisTransport } from '../../../src/pipeline/redis/index.js';
import { Random } from '../../support/engine-bench.js';
import { RedisServer, whyNoRedis } from '../../support/redis/redis-server.js';
import { pause, until } from '../../support/waiting.js';
import { stageOf } from '../bench.js';
import { Noted, upTo } from './support/parties.js';

it.each([
  [{}, /url/],
  [{ url: 'http://a' }, /url must be redis:/],
  [{ url: 'redis://a', maxlen: 3 }, /did you mean maxInboxEntries/],
  [{ url: 'redis://a', ttlMs: 1 }, /ttlMs/],
  [{ url: 'redis://a', prefix: 7 }, /prefix/],
  [{ url: 'redis://a', tls: 'yes' }, /tls/],
  [null, /options/],
])('wrong options are refused: %j', async (options, message) => {
  await expect(RedisTransport.open(options as never)).rejects.toThrow(message);
});

it('no message of an error has the password', async () => {
  const url = 'redis://user:secret@ :1';
  await expect(RedisTransport.open({ url })).rejects.not.toThrow(/secret/);
});

describe.skipIf(whyNoRedis !== null)('a transport over Redis', () => {
  it('carries messages once and in order, and leaves nothing in the inbox', async () => {
    const server = await RedisServer.start();
    const a = await Noted.join('client/a', server);
    const b = await Noted.join('stage/b', { url: server.socketUrl });
    await a.meets(b);
    a.ping('stage/b', 1, 3000);
    b.ping('client/a', 1, 10);
    await b.has(3000);
    await a.has(10);
    expect(b.numbers).toEqual(upTo(3000));
    expect(a.numbers).toEqual(upTo(10));
    await until(() => server.command('xlen', 'blockstep:stage/b') === '0', 'an empty inbox');
    expect(a.losses).toEqual([]);
    expect(b.losses).toEqual([]);
    expect(a.stats).toMatchObject({ sent: 3001, received: 10, queued: 0, queuedBytes: 0, connections: 2 });
    for (const name of ['client/a', 'stage/b']) {
      const ttl = Number(server.command('pttl', `blockstep:${name}`));
      expect(ttl).toBeGreaterThan(10_000);
      expect(ttl).toBeLessThanOrEqual(60_000);
    }
  });

  it('one name has one party, and prefixes are worlds apart', async () => {
    const server = await RedisServer.start();
    const a = await Noted.join('stage/a', server);
    expect(() => a.transport.join('stage/a', { receive() {}, lost() {} })).toThrow(/not in use/);
    const other = await Noted.join('stage/a', server, { prefix: 'other:' });
    await Promise.all([a.connected(), other.connected()]);
    a.ping('stage/a', 1);
    await a.has(1);
    expect(other.numbers).toEqual([]);
    expect(a.stats.isReplaced).toBe(false);
  });

  it('keeps for a stage what was sent before it joined, and nothing for a client that has gone', async () => {
    const server = await RedisServer.start();
    const a = await Noted.join('client/a', server);
    const gone = await Noted.join('client/gone', server);
    await gone.connected();
    await gone.connection.close();
    a.ping('stage/late', 1, 5);
    a.ping('client/gone', 1, 5);
    await until(() => a.stats.sent === 5 && a.stats.undeliverable === 5, 'the end of sending');
    expect(server.command('keys', '*').split('\n').sort()).toEqual([
      'blockstep:client/a',
      'blockstep:stage/late',
    ]);
    // Nobody may ever come for it.
    expect(Number(server.command('pttl', 'blockstep:stage/late'))).toBeGreaterThan(0);
    const late = await Noted.join('stage/late', server);
    await late.has(5);
    expect(late.numbers).toEqual(upTo(5));
    expect(late.losses).toEqual([]);
  });

  it('a new life drops what the former one had and did not finish, and takes what that never had', async () => {
    const server = await RedisServer.start();
    const a = await Noted.join('client/a', server);
    await a.connected();
    for (let n = 1; n <= 6; n++) {
      a.ping('stage/b', n);
      await until(() => a.stats.sent === n, 'a message on the server');
    }
    const key = 'blockstep:stage/b';
    server.command('xgroup', 'create', key, 'former', '0');
    server.command('xreadgroup', 'group', 'former', 'reader', 'count', '4', 'streams', key, '>');
    const b = await Noted.join('stage/b', server);
    await b.has(2);
    a.ping('stage/b', 7);
    await b.has(3);
    expect(b.numbers).toEqual([5, 6, 7]);
    expect(b.stats).toMatchObject({ inherited: 4, losses: 0 });
    expect(server.command('xinfo', 'groups', key)).not.toMatch(/former/);
  });

  it('of two processes with one name the later one has it, and the former one is told', async () => {
    const server = await RedisServer.start();
    const a = await Noted.join('client/a', server);
    const former = await Noted.join('stage/b', server);
    a.ping('stage/b', 1);
    await former.has(1);
    const later = await Noted.join('stage/b', server);
    await until(() => former.stats.isReplaced, 'the end of the former one');
    expect(former.losses).toEqual([null]);
    expect(former.whys[0]).toMatch(/another process has joined as stage\/b/);
    former.ping('client/a', 1);
    later.ping('client/a', 2);
    a.ping('stage/b', 2, 9);
    await later.has(8);
    await a.has(1);
    expect(later.numbers).toEqual(upTo(9, 2));
    expect(a.numbers).toEqual([2]);
    expect(former.stats.dropped).toBe(1);
    await former.connection.close();
    a.ping('stage/b', 10);
    await later.has(9);
    expect(later.losses).toEqual([]);
  });

  it('skips and counts what is foreign', async () => {
    const server = await RedisServer.start();
    const a = await Noted.join('client/a', server);
    const b = await Noted.join('stage/b', server);
    a.ping('stage/b', 1);
    await b.has(1);
    const key = 'blockstep:stage/b';
    for (const words of [
      ['m', 'x'],
      ['other', 'y'],
      ['m', '\u0001\u0093'],
    ])
      server.command('xadd', key, '*', ...words);
    a.ping('stage/b', 2);
    await b.has(2);
    expect(b.stats).toMatchObject({ foreign: 3, losses: 0 });
    expect(b.numbers).toEqual([1, 2]);
  });

  it('what is too large or cannot be packed is counted, the sender learns why, and the receiver misses nothing', async () => {
    const server = await RedisServer.start();
    const a = await Noted.join('stage/a', server, { maxMessageBytes: 2000 });
    const b = await Noted.join('stage/b', server);
    const send = (extra: unknown): string | null => {
      const chunk = { number: 1, tokens: Int32Array.of(1), extras: [extra], isLast: false };
      return a.connection.send('stage/b', { kind: 'chunk', key: 'k', chunk });
    };
    expect(send(new Uint8Array(3000))).toMatch(/30\d\d bytes are more than maxMessageBytes/);
    a.ping('stage/b', 1);
    await b.has(1);
    expect(send(() => {})).toMatch(/function/i);
    expect(send(new Uint8Array(1000))).toBeNull();
    await until(() => b.messages.length === 2, 'the chunk');
    expect(b.losses).toEqual([]);
    expect(a.stats).toMatchObject({
      unsendable: 2,
      lastError: expect.stringMatching(/^chunk to stage\/b: /),
    });
  });

  it('an extra value that cannot be packed costs its request, and none beside it between the same stages', async () => {
    const server = await RedisServer.start();
    const open = () => RedisTransport.open({ url: server.url, commandTimeoutMs: 20_000 });
    const first = stageOf('a');
    const reference = first.engine.executor as ReferenceExecutor;
    const { execute } = reference;
    reference.execute = (plan, tables) => {
      const answer = execute.call(reference, plan, tables) as { tokens: Int32Array; counts: Int32Array };
      const extras: unknown[] = [];
      for (let i = 0; i < plan.numRequests; i++)
        for (let n = 0; n < answer.counts[i]; n++)
          extras.push(plan.requests[i].params === 'bad' ? () => {} : i);
      return { ...answer, extras };
    };
    const second = new StageServer({ stage: stageOf('b', 1), transport: await open() });
    second.run();
    const pipeline = new Pipeline({
      stages: [first, { name: 'b', remote: true }],
      transport: await open(),
    });
    pipeline.run();
    const submit = (params: string) => pipeline.submit({ prompt: [1, 2, 3], maxTokens: 8, params });
    const [good, bad, other] = ['good', 'bad', 'good'].map(submit);
    await expect(bad.result()).rejects.toThrow(
      /failed in stage a: its chunk for b cannot be sent: .*function/i,
    );
    for (const stream of [good, other]) expect((await stream.result()).finishReason).toBe('length');
    expect(pipeline.stats()).toMatchObject({ completed: 2, failed: 1 });
    await pipeline.shutdown();
    await second.shutdown();
  });

  it('what the server had given when the connection broke is read again', async () => {
    const server = await RedisServer.start();
    const a = await Noted.join('client/a', server);
    const b = await Noted.join('stage/b', server);
    await b.connected();
    a.ping('stage/nobody', 7);
    await until(() => a.stats.sent === 1, 'a message on the server');
    // Puts it into the inbox, and gives it to the reader, who never hears of it.
    const script = `local entry = redis.call('XRANGE', KEYS[1], '-', '+')[1]
      redis.call('XADD', KEYS[2], '*', entry[2][1], entry[2][2])
      local group = redis.call('XINFO', 'GROUPS', KEYS[2])[1][2]
      return #redis.call('XREADGROUP', 'GROUP', group, 'reader', 'STREAMS', KEYS[2], '>')`;
    const keys = ['blockstep:stage/nobody', 'blockstep:stage/b'];
    expect(server.command('eval', script, '2', ...keys)).toBe('1');
    server.command('client', 'kill', 'type', 'normal');
    await b.has(1);
    expect(b.numbers).toEqual([7]);
  });

  it('a connection that breaks again and again loses and doubles nothing (random)', async () => {
    const server = await RedisServer.start();
    const random = new Random(11);
    const a = await Noted.join('client/a', server);
    const b = await Noted.join('stage/b', server);
    await a.meets(b);
    for (let next = 1; next <= 4000; next += 40) {
      a.ping('stage/b', next, next + 39);
      b.ping('client/a', next, next + 39);
      if (random.chance(15)) server.command('client', 'kill', 'type', 'normal');
      if (random.chance(60)) await pause(random.below(8));
    }
    await Promise.all([a.has(4000), b.has(4000)]);
    expect(a.numbers).toEqual(upTo(4000));
    expect(b.numbers).toEqual(upTo(4000));
    expect([...a.losses, ...b.losses]).toEqual([]);
    expect(a.stats.connections + b.stats.connections).toBeGreaterThan(8);
  });
});
