// Hand-overs that are refused, given back, or requested twice; peers that name foreign leases.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MultiConnector } from '../../../src/connectors/multi/index.js';
import { unpagedText, wordy } from '../../executors/reference/support.js';
import { codeOf } from '../../support/driver.js';
import { FAR, LEASE_MS, type Node, type NodeOptions, SEED, World } from './world.js';

let world: World;
let p: Node;
let d: Node;
let next = 0;

beforeEach(() => {
  world = new World();
});
afterEach(() => world.dispose());

function pair(forP: NodeOptions = {}, forD: NodeOptions = {}): void {
  [p, d] = world.pair(forP, { ...forD, engine: { loadFailurePolicy: 'fail', ...forD.engine } });
}

type Params = Readonly<Record<string, unknown>>;

/** Turns until the producer is free, far sooner than its leases end. */
async function isFreeSoon(): Promise<void> {
  const before = world.time;
  await world.until(() => p.isAtRest, 'the producer is free');
  expect(world.time - before).toBeLessThan(LEASE_MS / 4);
  expect(p.worker.stats().leases).toMatchObject({ expired: 0, open: 0 });
}

describe('a hand-over that is refused gives its lease back', () => {
  const prompt = wordy(40, 1);
  const submit = (transferParams: Params, more = {}, options = {}) =>
    d.engine.submit({ prompt, maxTokens: 5, transferParams, ...more }, options);

  it.each([
    ['maxTokens', 'ERR_BLOCKSTEP_BAD_ARG', { maxTokens: 0 }],
    ['an unknown field', 'ERR_BLOCKSTEP_BAD_ARG', { max_tokens: 5 }],
    ['its length', 'ERR_BLOCKSTEP_UNFIT', { prompt: wordy(200, 1) }],
    ['its tokens', 'ERR_BLOCKSTEP_BAD_ARG', { prompt: [-1] }],
  ])('for %s', async (_, code, more) => {
    pair();
    const params = await world.prefill(prompt);
    expect(codeOf(() => submit(params, more))).toBe(code);
    await isFreeSoon();
    expect(d.connector.stats()).toMatchObject({ asked: 0, givenBack: 1 });
    await world.rest();
  });

  it('for a signal that was aborted before', async () => {
    pair();
    const params = await world.prefill(prompt);
    await expect(submit(params, {}, { signal: AbortSignal.abort() }).result()).rejects.toThrow();
    await isFreeSoon();
    await world.rest();
  });

  it.each(['new', 'all'] as const)('for overload, of an engine that is paused (%s) too', async (mode) => {
    pair({}, { engine: { maxQueuedRequests: 1 } });
    const [params, others] = [await world.prefill(prompt), await world.prefill(wordy(30, 2))];
    d.engine.pause(mode);
    const first = d.engine.submit({ prompt: wordy(30, 2), maxTokens: 2, transferParams: others });
    expect(codeOf(() => submit(params))).toBe('ERR_BLOCKSTEP_OVERLOADED');
    await world.until(
      () => p.worker.stats().leases.released === 1,
      'the lease of the refused one is given back',
    );
    d.engine.resume();
    await world.ended(first);
    expect(d.worker.stats().reads.ok).toBe(1);
    await world.rest();
  });

  it('of an engine that runs by itself, and has nothing else to do', async () => {
    pair();
    const params = await world.prefill(prompt);
    void d.engine.run();
    const turn = async (): Promise<void> => {
      await new Promise(setImmediate);
      await p.step();
      world.deliver();
    };
    for (let i = 0; i < 5; i++) await turn();
    expect(codeOf(() => submit(params, { maxTokens: 0 }))).toBe('ERR_BLOCKSTEP_BAD_ARG');
    for (let i = 0; i < 50 && p.worker.stats().leases.released === 0; i++) await turn();
    expect(p.worker.stats().leases.released).toBe(1);
    d.engine.stop();
    await world.rest();
  });

  it('of an engine that shuts down', async () => {
    pair();
    const params = await world.prefill(prompt);
    const running = d.engine.submit({ prompt: wordy(8, 9), maxTokens: 60 });
    await world.turn();
    const ended = d.engine.shutdown();
    expect(codeOf(() => submit(params))).toBe('ERR_BLOCKSTEP_SHUTDOWN');
    await world.until(() => p.worker.stats().leases.released === 1, 'the lease is given back');
    await world.ended(running);
    await ended;
  });

  it('but not while another request of the same params reads', async () => {
    pair();
    const params = await world.prefill(prompt);
    const stream = submit(params, { id: 'one' });
    expect(codeOf(() => submit(params, { id: 'one' }))).toBe('ERR_BLOCKSTEP_DUPLICATE_ID');
    expect((await world.ended(stream)).numCachedTokens).toBe(39);
    expect(d.worker.stats().reads).toMatchObject({ ok: 1, refused: 0 });
    await world.rest();
  });

  it('one without transfer params, or with those of somebody else, gives nothing back', async () => {
    pair();
    const params = await world.prefill(prompt);
    for (const transferParams of [undefined, [], { doRemotePrefill: true }, { doRemoteDecode: true }, 7])
      expect(codeOf(() => submit(transferParams as unknown as Params, { maxTokens: 0 }))).toBe(
        'ERR_BLOCKSTEP_BAD_ARG',
      );
    const broken = {
      ...{ prompt, maxTokens: 0 },
      get transferParams(): Params {
        throw new Error('no');
      },
    };
    expect(() => d.engine.submit(broken)).toThrow('no');
    expect(d.connector.stats()).toMatchObject({ givenBack: 0, orders: 0 });
    expect((await world.ended(submit(params))).numCachedTokens).toBe(39);
    await world.rest();
  });

  it('also where the engine that refuses has other settings', async () => {
    pair({ connector: { model: 'a' } }, { connector: { model: 'b' } });
    const { tokens } = await world.ended(submit(await world.prefill(prompt)));
    expect([...tokens]).toEqual(unpagedText(prompt, 5, { seed: SEED }));
    await isFreeSoon();
    expect(d.connector.stats()).toMatchObject({ otherSettings: 1, loads: 0 });
    await world.rest();
  });
});

describe('a hand-over under another key', () => {
  const prompt = wordy(40, 4);

  it.each([
    ['no salt', 'a salt', {}, { cacheSalt: 'a' }],
    ['a salt', 'no salt', { cacheSalt: 'a' }, {}],
    ['a salt', 'another one', { cacheSalt: 'a' }, { cacheSalt: 'b' }],
    ['an adapter', 'another one', { adapter: 'a' }, { adapter: 'b' }],
    ['an adapter', 'a salt of its name', { adapter: 'a' }, { cacheSalt: 'a' }],
  ])('is computed here (%s, then %s), and gives its lease back', async (_, __, first, then) => {
    pair();
    const { transferParams } = await world.ended(
      p.engine.submit({ prompt, maxTokens: 1, transferParams: FAR, ...first }),
    );
    const stream = d.engine.submit({ prompt, maxTokens: 5, transferParams: transferParams ?? {}, ...then });
    expect((await world.ended(stream)).numCachedTokens).toBe(0);
    expect(d.connector.stats()).toMatchObject({ otherTokens: 1, loads: 0 });
    await isFreeSoon();
    await world.rest();
  });

  it.each([{ cacheSalt: 'a' }, { adapter: 'a' }])('is loaded where the key is the same: %o', async (key) => {
    pair();
    const { transferParams } = await world.ended(
      p.engine.submit({ prompt, maxTokens: 1, transferParams: FAR, ...key }),
    );
    const stream = d.engine.submit({ prompt, maxTokens: 5, transferParams: transferParams ?? {}, ...key });
    expect((await world.ended(stream)).numCachedTokens).toBe(39);
    await world.rest();
  });
});

describe('params that are given back', () => {
  it.each(['the engine that was to read', 'the engine that granted'])(
    'to %s end the lease',
    async (whose) => {
      pair();
      const params = await world.prefill(wordy(40, next++));
      (whose === 'the engine that granted' ? p : d).engine.giveBack(params);
      await isFreeSoon();
      expect(p.worker.stats().leases.released).toBe(1);
      await world.rest();
    },
  );

  it('are refused if they are none', () => {
    pair();
    for (const none of [undefined, null, 'a', []])
      expect(codeOf(() => d.engine.giveBack(none as unknown as Params))).toBe('ERR_BLOCKSTEP_BAD_ARG');
  });

  it('are told to every child of a MultiConnector', () => {
    pair();
    const told: unknown[] = [];
    const child = (name: string) => ({
      name,
      connector: Object.assign(Object.create(d.connector), {
        requestRefused: (params: Params) => told.push([name, params]),
      }),
    });
    new MultiConnector({ children: [child('a'), child('b')], numRanks: 1 }).requestRefused({ x: 1 });
    expect(told).toEqual([
      ['a', { x: 1 }],
      ['b', { x: 1 }],
    ]);
  });
});

describe('two requests with the same params', () => {
  const prompt = wordy(40, 3);

  it('at one engine: one loads, and the other one is computed, under `fail` too', async () => {
    pair();
    const params = await world.prefill(prompt);
    const streams = [1, 2].map(() => d.engine.submit({ prompt, maxTokens: 5, transferParams: params }));
    const results = [await world.ended(streams[0]), await world.ended(streams[1])];
    expect(results.map(({ finishReason }) => finishReason)).toEqual(['length', 'length']);
    expect(results.map(({ numCachedTokens }) => numCachedTokens).toSorted()).toEqual([0, 39]);
    expect(d.worker.stats().reads).toMatchObject({ ok: 1, refused: 1 });
    await world.rest();
  });

  it('at two engines: the second reader, and its abort, leave the first one alone', async () => {
    pair();
    const e = world.add('e', { engine: { loadFailurePolicy: 'fail' } });
    const params = await world.prefill(prompt);
    const first = d.engine.submit({ prompt, maxTokens: 5, transferParams: params });
    // The first one comes as far as its copy.
    await world.stalledTurns(20, [p, e]);
    expect(d.worker.stats().reads.open).toBe(1);
    const second = e.engine.submit({ prompt, maxTokens: 5, transferParams: params });
    await world.stalledTurns(20, [p, e]);
    expect(e.connector.stats().lost).toBe(1);
    e.engine.giveBack(params);
    await world.stalledTurns(20, [p, e]);
    expect((await world.ended(first)).numCachedTokens).toBe(39);
    expect((await world.ended(second)).numCachedTokens).toBe(0);
    expect(d.worker.stats().reads.ok).toBe(1);
    await world.rest();
  });
});

describe('a peer', () => {
  it('cannot close, cancel or confirm the read of another one', async () => {
    pair();
    const e = world.add('e');
    const prompt = wordy(40, 5);
    const other = await world.prefill(wordy(40, 6), { from: e });
    const params = await world.prefill(prompt);
    // Both are peers of the reader, with sessions of their own; only one of them is read from.
    const streams = [
      d.engine.submit({ prompt: wordy(40, 6), maxTokens: 5, transferParams: other }),
      d.engine.submit({ prompt, maxTokens: 5, transferParams: params }),
    ];
    await world.stalledTurns(20, [p, e]);
    expect(d.worker.stats().reads.open).toBe(2);
    const seen = world.said.filter(({ to, message }) => to === 'p' && message['kind'] === 'open');
    const { transfer, key } = seen[0].message;
    const [word] = world.said.filter(({ from, to }) => from === 'e' && to === 'd').slice(-1);
    for (const message of [
      { kind: 'closed', transfer, reason: 'no' },
      { kind: 'cancel', key },
      { kind: 'confirmed', transfer },
    ])
      world.forge(word, message);
    world.deliver();
    expect(d.worker.stats().reads).toMatchObject({ open: 2, ok: 0, refused: 0, failed: 0 });
    // All is copied, and the reader waits for the one word that makes it count.
    d.lanes.runAll();
    world.time++;
    await d.step();
    world.forge(word, { kind: 'confirmed', transfer });
    world.deliverTo('d');
    expect(d.worker.stats().reads).toMatchObject({ open: 2, ok: 0 });
    for (const stream of streams) expect((await world.ended(stream)).numCachedTokens).toBe(39);
    await world.rest();
  });
});
