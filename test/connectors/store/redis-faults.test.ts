// Servers that stop, hang, forget, are full or slow, or expect another password; foreign values.
import { describe, expect, it } from 'vitest';
import { StoreThread } from '../../../src/connectors/store/index.js';
import { Outcome } from '../../../src/connectors/store/stores/block-store.js';
import { BlockArena } from '../../../src/transfer/block-arena.js';
import { wordy } from '../../executors/reference/support.js';
import { RedisServer, whyNoRedis } from '../../support/redis/redis-server.js';
import { pause, until } from '../../support/waiting.js';
import { done, there } from './support/drive.js';
import { end, live, type Served, serve, TOKENS } from './support/life.js';

/** A store that is down is noticed soon, and tried again soon. */
const SOON = { timeoutMs: 150, lookupBudgetMs: 50, pauseMs: 10 };

function storeOf({ url }: RedisServer) {
  return { url, commandTimeoutMs: 150 };
}

/** Jobs that took too long, or failed, of all threads of an engine. */
function failuresOf({ connector, workers }: Served): number {
  const all = [connector.stats().store, ...workers.map((worker) => worker.stats().store)];
  return all.reduce((sum, { failures }) => sum + failures, 0);
}

/** Runs the engine until it has stored a block: its store works. */
async function untilStored(served: Served): Promise<void> {
  for (let seed = 0; served.workers[0].stats().store.stored === 0; seed++) {
    await live(served, { seed, requests: 6, prompts: 30, aborts: 0 });
    await pause(20);
  }
}

/**
 * The faults of a server in the middle of an engine's life. Each costs hits alone: `live` checks
 * every request.
 */
const MISFORTUNES: Record<
  string,
  (server: RedisServer, round: number, served: Served) => void | Promise<void>
> = {
  'is stopped': (server, round) => (round === 40 ? server.stop() : undefined),
  'is restarted, empty': async (server, round) => {
    if (round === 40) await server.stop();
    if (round === 80) await server.start();
  },
  'hangs for ever': (server, round) => (round === 40 ? server.signal('SIGSTOP') : undefined),
  'hangs for a while': (server, round, served) => {
    if (round === 40) server.signal('SIGSTOP');
    if (failuresOf(served) > 0) server.signal('SIGCONT');
  },
  'is flushed': (server, round) => {
    if (round % 30 === 29) server.command('flushall');
  },
  'is slow': (server, round) => {
    if (round % 30 === 29) server.command('client', 'pause', '60', 'ALL');
  },
  'is full': (server, round) => {
    if (round === 20) server.command('config', 'set', 'maxmemory', '1');
  },
  'wants another password': (server, round) => {
    if (round !== 40) return;
    server.command('config', 'set', 'requirepass', 'other');
    server.command('-a', 'other', '--no-auth-warning', 'client', 'kill', 'type', 'normal');
  },
};

describe.skipIf(whyNoRedis !== null)('a server that', () => {
  it.each(Object.entries(MISFORTUNES))('%s costs no request', async (name, happen) => {
    const server = await RedisServer.start();
    const served = serve({ store: storeOf(server), pipelineDepth: 2, ...SOON });
    // The fault meets a store that works.
    await untilStored(served);
    const onRound = (round: number) => happen(server, round, served);
    await live(served, { seed: 4, requests: 40, prompts: 8, aborts: 10, onRound });
    const { store } = served.connector.stats();
    const ofWorker = served.workers[0].stats().store;
    expect([store.deaths, ofWorker.deaths]).toEqual([0, 0]);
    if (name.startsWith('is full')) {
      expect(ofWorker.full).toBeGreaterThan(0);
      expect(ofWorker.takesValues).toBe(false);
      // A full store is read all the same.
      expect(ofWorker.state).toBe('up');
    } else if (!['is flushed', 'is slow'].includes(name)) {
      await until(() => served.engine.step() !== null && failuresOf(served) > 0, 'a failure');
      // A store that is down is left alone: far from every job fails by its time.
      expect(store.timeouts + ofWorker.timeouts).toBeLessThan(40);
    }
    if (name === 'wants another password') expect(store.lastError).toMatch(/NOAUTH|WRONGPASS|closed/);
    server.signal('SIGCONT');
    await end(served);
  });

  it('is down at the start is found when it comes', async () => {
    const server = await RedisServer.start();
    await server.stop();
    const served = serve({ store: storeOf(server), ...SOON });
    while (served.connector.stats().store.lastError === null)
      await live(served, { seed: 1, requests: 6, prompts: 3, aborts: 0 });
    expect(served.connector.stats().store.state).not.toBe('up');
    expect(served.connector.stats().store.lastError).toMatch(/ECONNREFUSED/);
    await server.start();
    await untilStored(served);
    await end(served);
  });
});

describe.skipIf(whyNoRedis !== null)('a thread over a server', () => {
  function threadOf(store: { url: string; commandTimeoutMs?: number }, timeoutMs = 20_000) {
    const staging = BlockArena.allocate({ numBlocks: 8, bytesPerBlock: 1024 });
    return { staging, thread: new StoreThread({ store, staging, timeoutMs, pauseMs: 1 }) };
  }

  it('takes no value that is damaged, foreign, of another kind, or cut off', async () => {
    const server = await RedisServer.start();
    const { staging, thread } = threadOf({ url: server.url });
    for (let i = 0; i < 4; i++) staging.block(i).fill(65 + i);
    await done(thread, 'put', ['a', 'b', 'c', 'd'], [0, 1, 2, 3]);
    server.command('setrange', 'a', '500', 'x');
    server.command('copy', 'b', 'e');
    server.command('set', 'c', 'nonsense');
    server.command('del', 'd');
    server.command('lpush', 'd', 'one');
    const { corrupt, missing } = Outcome;
    const asked = ['a', 'e', 'c', 'd'];
    expect(await done(thread, 'get', asked, [4, 5, 6, 7])).toEqual([corrupt, corrupt, corrupt, corrupt]);
    for (const place of [4, 5, 6, 7]) expect(staging.block(place).every((byte) => byte === 0)).toBe(true);
    expect(await done(thread, 'get', ['b'], [4])).toEqual([Outcome.done]);
    // Values that nobody can use are gone.
    expect(await there(thread, asked)).toEqual([missing, missing, missing, missing]);
    expect(thread.stats()).toMatchObject({ corrupt: 4, hits: 1, state: 'up' });
    await thread.close();
  });

  it('speaks with a password, over a socket, in a database, and lets values live for a while', async () => {
    const server = await RedisServer.start('--requirepass', 'p@ss word');
    const url = `${server.socketUrl.replace('redis+unix://', 'redis+unix://:p%40ss%20word@host')}?db=3`;
    const { thread } = threadOf({ url });
    expect(await done(thread, 'put', ['k'], [0])).toEqual([Outcome.done]);
    const cli = (...words: string[]) => server.command('-a', 'p@ss word', '--no-auth-warning', ...words);
    expect(cli('-n', '3', 'exists', 'k')).toBe('1');
    expect(Number(cli('-n', '3', 'pttl', 'k'))).toBeGreaterThan(80_000_000);
    await thread.close();
  });

  it('is told of a wrong password, and says so', async () => {
    const server = await RedisServer.start('--requirepass', 'right');
    const { thread } = threadOf({ url: server.url.replace('redis://', 'redis://:wrong@') });
    expect(await there(thread, ['k'])).toEqual([Outcome.failed]);
    expect(thread.stats()).toMatchObject({ state: 'down', failures: 1 });
    expect(thread.stats().lastError).toMatch(/WRONGPASS/);
    expect(thread.stats().lastError).not.toContain('wrong@');
    await thread.close();
  });

  it('has its places back from a server that hangs', async () => {
    const server = await RedisServer.start();
    const { thread } = threadOf({ url: server.url, commandTimeoutMs: 50 });
    // On a busy machine a command may take longer than its time.
    const untilDone = async (kind: 'put' | 'get', place: number): Promise<void> => {
      let outcomes = [0];
      while (outcomes[0] !== Outcome.done) outcomes = await done(thread, kind, ['k'], [place]);
    };
    await untilDone('put', 0);
    server.signal('SIGSTOP');
    expect(await done(thread, 'get', ['k'], [1])).toEqual([Outcome.failed]);
    server.signal('SIGCONT');
    await untilDone('get', 1);
    expect(thread.stats()).toMatchObject({ state: 'up', pending: 0 });
    await thread.close();
  });
});

it.skipIf(whyNoRedis !== null)(
  'a lookup that is never answered holds a request for its budget alone',
  async () => {
    const server = await RedisServer.start();
    // The thread itself would wait for longer than this test.
    const served = serve({ store: { url: server.url, commandTimeoutMs: 60_000 }, lookupBudgetMs: 20 });
    server.signal('SIGSTOP');
    void served.engine.run();
    const { tokens, finishReason } = await served.engine
      .submit({ prompt: wordy(20, 1), maxTokens: TOKENS })
      .result();
    expect([finishReason, tokens.length]).toEqual(['length', TOKENS]);
    expect(served.connector.stats()).toMatchObject({ lookups: 1, lateLookups: 1 });
    server.signal('SIGCONT');
    await end(served);
  },
);
