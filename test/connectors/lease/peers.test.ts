// Peers that do not fit, are cut off, die, come back, are forgotten; foreign params, messages and
// options.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  LeaseConnector,
  LeaseWorker,
  MemoryHub,
  type Parcel,
  ZmqLink,
} from '../../../src/connectors/lease/index.js';
import { BlockArena } from '../../../src/transfer.js';
import { unpagedText, wordy } from '../../executors/reference/support.js';
import { Random } from '../../support/engine-bench.js';
import { FAR, type Node, type NodeOptions, SEED, World } from './world.js';

let world: World;
let p: Node;
let d: Node;
let next = 0;

beforeEach(() => {
  world = new World();
});
afterEach(() => world.dispose());

function pair(forP: NodeOptions = {}, forD: NodeOptions = {}): void {
  [p, d] = world.pair(forP, forD);
}

/**
 * A request through both engines, whose text must be correct.
 * @returns whether its KV was handed over
 */
async function trip(
  change: (params: Record<string, unknown>) => unknown = (params) => params,
): Promise<boolean> {
  const prompt = wordy(40, 100 + next++);
  const params = await world.prefill(prompt);
  const before = d.worker.stats().reads.ok;
  const changed = change({ ...params }) as Record<string, unknown>;
  const { tokens } = await world.ended(d.engine.submit({ prompt, maxTokens: 4, transferParams: changed }));
  expect([...tokens]).toEqual(unpagedText(prompt, 4, { seed: SEED }));
  return d.worker.stats().reads.ok > before;
}

describe('a peer', () => {
  it('with other settings is refused, and costs a computation', async () => {
    pair({ connector: { model: 'a' } }, { connector: { model: 'b' }, engine: { loadFailurePolicy: 'fail' } });
    expect(await trip()).toBe(false);
    expect(d.connector.stats().otherSettings).toBe(1);
    await world.rest();
  });

  it('that claims the same settings is found out when it is asked', async () => {
    pair({ connector: { dtype: 'a' } }, { connector: { dtype: 'b' }, engine: { loadFailurePolicy: 'fail' } });
    world.add('e', { connector: { dtype: 'b' } });
    const { settings } = await world.prefill(wordy(40, 1), { from: world.nodes[2] });
    expect(await trip((params) => ({ ...params, settings }))).toBe(false);
    expect(d.connector.stats()).toMatchObject({ lost: 1, loads: 0 });
    expect(d.worker.stats().peers[0].reason).toBe('the engines have different settings');
    await world.rest();
  });

  it('of another rank is refused with a reason, and asked again later', async () => {
    pair({ worker: { rank: 1 } }, { engine: { loadFailurePolicy: 'fail' } });
    expect(await trip()).toBe(false);
    expect(d.worker.stats().peers[0]).toMatchObject({
      state: 'refused',
      reason: 'rank is 1 here and 0 there',
    });
    expect(p.worker.stats().sessions).toMatchObject({ open: 0, refused: 1 });
    await world.rest();
    world.muted = true;
    world.nodes.shift();
    p.engine.dispose();
    p.executor.dispose();
    world.muted = false;
    p = world.add('p');
    world.time += 1000;
    expect(await trip()).toBe(true);
    await world.rest();
  });

  it('that is cut off is given up in time, and taken back by itself', async () => {
    pair();
    expect(await trip()).toBe(true);
    const cut = (): void => {
      for (let i = world.parcels.length - 1; i >= 0; i--) world.parcels.splice(i, 1);
    };
    const prompt = wordy(40, 5);
    const transferParams = await world.prefill(prompt);
    const stream = d.engine.submit({ prompt, maxTokens: 4, transferParams });
    let isOver = false;
    void stream.result().then(() => {
      isOver = true;
    });
    const begun = world.time;
    while (!isOver) {
      cut();
      world.time += 5;
      await p.step();
      await d.step();
    }
    expect(world.time - begun).toBeLessThan(1000);
    expect(d.worker.stats()).toMatchObject({ peers: [{ state: 'dead' }], peerEvents: { deaths: 1 } });
    world.time += 3 * 24 * 3600 * 1000;
    expect(await trip()).toBe(true);
    expect(d.worker.stats()).toMatchObject({ peers: [{ state: 'ready' }], peerEvents: { returns: 1 } });
    await world.rest();
  });

  it('that was started again is taken back, and its old leases are not', async () => {
    pair();
    expect(await trip()).toBe(true);
    const prompt = wordy(40, 5);
    const transferParams = await world.prefill(prompt);
    p.restart();
    const old = d.engine.submit({ prompt, maxTokens: 4, transferParams });
    expect([...(await world.ended(old)).tokens]).toEqual(unpagedText(prompt, 4, { seed: SEED }));
    expect(d.worker.stats().reads).toMatchObject({ ok: 1, refused: 0, failed: 0 });
    expect(await trip()).toBe(true);
    await world.rest();
  });

  it('is not taken for dead by a process that stood still itself', async () => {
    pair();
    expect(await trip()).toBe(true);
    const prompt = wordy(40, 5);
    const transferParams = await world.prefill(prompt);
    const stream = d.engine.submit({ prompt, maxTokens: 4, transferParams });
    for (let i = 0; i < 3; i++) await d.step();
    for (let parcel = world.parcels.shift(); parcel?.to === 'p'; parcel = world.parcels.shift())
      world.hub.deliver(parcel);
    // The answer lies in the socket of a process that is stopped.
    world.time += 500;
    await d.step();
    expect([...(await world.ended(stream)).tokens]).toEqual(unpagedText(prompt, 4, { seed: SEED }));
    expect(d.worker.stats()).toMatchObject({ reads: { ok: 2 }, peerEvents: { deaths: 0 } });
    await world.rest();
  });

  it('of an earlier life is not listened to', async () => {
    pair();
    const old: Parcel[] = [];
    const { deliver } = world.hub;
    world.hub.deliver = (parcel) => {
      old.push(parcel);
      return deliver.call(world.hub, parcel);
    };
    expect(await trip()).toBe(true);
    p.engine.dispose();
    world.deliver();
    world.hub.deliver = deliver;
    p.executor.dispose();
    p.start();
    expect(await trip()).toBe(true);
    const before = [p, d].map(({ worker }) => worker.stats().ignored.strangers);
    for (const parcel of old) world.hub.deliver(parcel);
    const after = [p, d].map(({ worker }) => worker.stats().ignored.strangers);
    const questions = old.filter(({ to, frames }) => to === 'p' && !String(frames[0]).includes('hello'));
    expect(after[0] - before[0]).toBe(questions.length);
    expect(after[1] - before[1]).toBeGreaterThan(3);
    expect(d.worker.stats().peers[0].state).toBe('ready');
    expect(await trip()).toBe(true);
    await world.rest();
  });

  it('is asked again what was lost', async () => {
    pair();
    const lost = new Set<string>();
    const { deliver } = world.hub;
    // Of every kind of message the first one is lost.
    world.hub.deliver = (parcel) => {
      const kind = /"kind":"(\w+)"/.exec(Buffer.from(parcel.frames[0]).toString())?.[1] ?? '';
      if (lost.has(kind)) return deliver.call(world.hub, parcel);
      lost.add(kind);
      return false;
    };
    expect(await trip()).toBe(true);
    for (const kind of ['hello', 'welcome', 'beat', 'beats', 'open', 'opened', 'confirm', 'confirmed'])
      expect(lost).toContain(kind);
    await world.rest();
  });

  it('that said good-bye is given up at once', async () => {
    pair();
    expect(await trip()).toBe(true);
    p.engine.dispose();
    world.deliver();
    expect(d.worker.stats().peers).toMatchObject([{ state: 'dead', reason: 'it has ended' }]);
  });

  it('that was forgotten on both sides comes back as if it were new', async () => {
    pair();
    const q = world.add('q');
    expect(await trip()).toBe(true);
    world.time += 6000;
    // Something else goes on at both, so that they are stepped.
    for (const { engine } of [p, d]) engine.submit({ prompt: wordy(9, 3), maxTokens: 3 });
    const transferParams = await world.prefill(wordy(30, 8), { from: q });
    await world.ended(d.engine.submit({ prompt: wordy(30, 8), maxTokens: 1, transferParams }));
    await world.prefill(wordy(30, 8));
    for (let i = 0; i < 3; i++) await world.turn();
    expect(d.worker.stats().peerEvents.reaped).toBe(1);
    expect(p.worker.stats().sessions.open).toBe(0);
    expect(await trip()).toBe(true);
    await world.until(() => world.nodes.every(({ isAtRest }) => isAtRest), 'rest', 50);
  });

  it('whose session the producer has forgotten is told so, and says hello again', async () => {
    pair({ worker: { reapMs: 50 } });
    expect(await trip()).toBe(true);
    world.time += 500;
    await world.ended(p.engine.submit({ prompt: wordy(9, 3), maxTokens: 3, transferParams: FAR }));
    for (let i = 0; i < 3; i++) await world.turn();
    expect(p.worker.stats().sessions.open).toBe(0);
    expect(await trip()).toBe(true);
    expect(p.worker.stats()).toMatchObject({
      sessions: { open: 1, begun: 2 },
      ignored: { strangers: expect.any(Number) as number },
    });
    expect(p.worker.stats().ignored.strangers).toBeGreaterThan(0);
    await world.rest();
  });
});

describe('a failed load', () => {
  it.each(['fail', 'recompute'] as const)(
    'costs its request what loadFailurePolicy says: %s',
    async (policy) => {
      pair({}, { engine: { loadFailurePolicy: policy } });
      const q = world.add('q');
      const begin = async (from: Node, seed: number) => {
        const prompt = wordy(40, seed);
        const transferParams = await world.prefill(prompt, { from });
        return d.engine.submit({ prompt, maxTokens: 4, transferParams });
      };
      const lost = await begin(p, 11);
      const good = await begin(q, 12);
      for (let i = 0; i < 12; i++) {
        world.time++;
        for (const node of world.nodes) await node.step();
        world.deliver();
      }
      expect(d.worker.stats().reads.open).toBe(2);
      p.restart();
      const ended = world.ended(lost);
      if (policy === 'fail') await expect(ended).rejects.toMatchObject({ code: 'ERR_BLOCKSTEP_REQUEST' });
      else expect([...(await ended).tokens]).toEqual(unpagedText(wordy(40, 11), 4, { seed: SEED }));
      expect([...(await world.ended(good)).tokens]).toEqual(unpagedText(wordy(40, 12), 4, { seed: SEED }));
      expect(d.worker.stats().reads).toMatchObject({ ok: 1 });
      await world.rest();
    },
  );
});

describe('what is foreign', () => {
  it.each([
    ['no list of addresses', { remoteAddresses: 'p' }],
    ['too many addresses', { remoteAddresses: ['p', 'p'] }],
    ['no lease', { remoteRequestId: 7 }],
    ['a lease of another engine', { remoteRequestId: 'nobody.3' }],
    ['no lease time', { leaseMs: '30' }],
    ['an endless lease', { leaseMs: Number.POSITIVE_INFINITY }],
    ['no extents', { extents: [] }],
    ['an extent without a digest', { extents: [{ numTokens: 3 }] }],
    ['a negative extent', { extents: [{ numTokens: -3, digest: 'x' }] }],
    ['an address of nobody', { remoteAddresses: ['nowhere'] }],
  ])('in the params (%s) costs a computation', async (_, wrong) => {
    pair({}, { engine: { loadFailurePolicy: 'fail' } });
    expect(await trip((params) => ({ ...params, ...wrong }))).toBe(false);
    await world.rest();
  });

  it('in messages is counted, and neither throws nor changes anything', async () => {
    pair();
    expect(await trip()).toBe(true);
    const random = new Random(5);
    const seen: Uint8Array[][] = [];
    const bytes = (length: number) => Uint8Array.from({ length }, () => random.below(256));
    for (let i = 0; i < 2000; i++) {
      if (i % 100 === 0) {
        const prompt = wordy(40, 300 + i);
        const first = p.engine.submit({ prompt, maxTokens: 1, transferParams: FAR });
        const go = async () => {
          const { transferParams } = await first.result();
          await d.engine.submit({ prompt, maxTokens: 2, transferParams: transferParams ?? {} }).result();
        };
        go().catch(() => {});
      }
      for (const { frames } of world.parcels) seen.push([...frames]);
      const good = seen[random.below(Math.max(1, seen.length))] ?? [bytes(9)];
      const frames = good.map((frame) => frame.slice());
      if (random.chance(20)) frames[0] = bytes(random.below(60));
      else if (frames.length > 0 && frames[0].length > 0 && random.chance(50))
        frames[0][random.below(frames[0].length)] = random.below(256);
      else frames[1] = bytes(random.below(300));
      const [from, to] = random.chance(50) ? ['p', 'd'] : ['d', 'p'];
      world.hub.deliver({ from: random.chance(10) ? 'stranger' : from, to, frames });
      if (i % 5 === 0) await world.turn();
    }
    await world.until(() => p.isAtRest && d.isAtRest, 'rest', 20);
    const { ignored } = d.worker.stats();
    expect(ignored.malformed).toBeGreaterThan(100);
    expect([p.executor.faults, d.executor.faults]).toEqual([[], []]);
    expect([p, d].map(({ engine }) => engine.stats().workerFailures)).toEqual([0, 0]);
    expect(await trip()).toBe(true);
  });
});

describe('options', () => {
  const kv = BlockArena.allocate({ numBlocks: 2, bytesPerBlock: 64 });
  const link = new MemoryHub().link('a');
  afterEach(() => link.close());

  it.each([
    ['addresses must be', {}],
    ['addresses must be', { addresses: [] }],
    ['addresses must be', { addresses: [7] }],
    ['leaseMs must be', { addresses: ['a'], leaseMs: 0 }],
    ['model must be', { addresses: ['a'], model: 7 }],
    ['did you mean leaseMs', { addresses: ['a'], leaseMS: 7 }],
  ])('of a connector are refused: %s', (message, options) => {
    expect(() => new LeaseConnector(options as never)).toThrow(message);
  });

  it.each([
    ['memory must be', { link }],
    ['link must be', { memory: { kv } }],
    ['rank must be', { rank: -1 }],
    ['peerTimeoutMs must be', { peerTimeoutMs: 0 }],
    ['pieceBytes must be', { pieceBytes: 0.5 }],
    ['sharedMemory must be', { sharedMemory: 1 }],
    ['now must be', { now: 3 }],
    ['names among memory, link, rank', { rnak: 3 }],
  ])('of a worker are refused: %s', (message, wrong) => {
    const both = 'link' in wrong || 'memory' in wrong ? wrong : { memory: { kv }, link, ...wrong };
    expect(() => new LeaseWorker(both as never)).toThrow(message);
  });

  it.each([
    ['bind must be', { bind: 'udp://x' }],
    ['bind must be an address that can be listened on', { bind: 'tcp://203.0.113.7:1' }],
    ['mayConnect must be', { mayConnect: 7 }],
    ['did you mean bind', { bnd: 7 }],
  ])('of a link over ZeroMQ are refused: %s', async (message, options) => {
    await expect(ZmqLink.open(options as never)).rejects.toThrow(message);
  });

  it('a link over ZeroMQ calls local addresses only, unless it is told otherwise', async () => {
    const one = await ZmqLink.open();
    const two = await ZmqLink.open({ bind: 'tcp://127.0.0.1:*' });
    const frames = [new Uint8Array(3)];
    expect(one.send('tcp://198.51.100.9:5600', frames)).toBe(false);
    expect(one.send('no address', frames)).toBe(false);
    expect(one.send('caller:0000', frames)).toBe(true);
    const came = new Promise((resolve) => two.listen((_, got) => resolve(got.map(({ length }) => length))));
    expect(one.send(two.address, frames)).toBe(true);
    expect(await came).toEqual([3]);
    for (const link of [one, two]) link.close();
  });
});
