// Hand-overs of windows, chunks and states: reads, computations, failures.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { decode, encode } from '../../../src/connectors/lease/wire/messages.js';
import type { KvGroupOptions } from '../../../src/index.js';
import { unpagedText, wordy } from '../../executors/reference/support.js';
import { thinned } from '../../support/share.js';
import { LEASE_MS, type Node, type NodeOptions, SEED, World } from './world.js';

/** Hand-overs of models with KV cache groups: windows, chunks, states, blocks of several sizes. */

let world: World;
let p: Node;
let d: Node;

beforeEach(() => {
  world = new World();
});
afterEach(() => world.dispose());

type Groups = readonly KvGroupOptions[];
type Engine = NonNullable<NodeOptions['engine']>;

function pair(kvGroups: Groups, engine: Engine = {}, worker: NodeOptions['worker'] = {}): void {
  const both = { numBlocks: 90, kvGroups, ...engine };
  [p, d] = world.pair({ engine: both }, { engine: both, worker });
}

const FULL: KvGroupOptions = { type: 'full' };
const WINDOWS: Readonly<Record<string, Groups>> = {
  'a window': [FULL, { type: 'sliding', window: 6 }],
  'a window alone': [{ type: 'sliding', window: 9 }],
  'a window of one token': [{ type: 'sliding', window: 1 }],
  'blocks of several sizes': [
    { type: 'full', blockSize: 16 },
    { type: 'sliding', blockSize: 4, window: 11 },
    { type: 'sliding', blockSize: 8, window: 3 },
  ],
  chunks: [
    { type: 'full', blockSize: 8 },
    { type: 'chunked', blockSize: 8, chunk: 12 },
  ],
};
const STATES: Readonly<Record<string, { groups: Groups; hasCache: boolean }>> = {
  'at the ends of blocks': { groups: [FULL, { type: 'mamba', mode: 'all' }], hasCache: true },
  'the last one': { groups: [{ type: 'mamba', mode: 'none' }, FULL], hasCache: false },
  alone: { groups: [{ type: 'mamba', mode: 'all' }], hasCache: true },
  'beside a window': {
    groups: [{ type: 'sliding', window: 5 }, { type: 'mamba', mode: 'all' }, FULL],
    hasCache: true,
  },
};

/** A prompt by way of both engines. @param numMore tokens of the first engine's answer that the second one is given too */
async function handOver(prompt: Int32Array, numMore: number): Promise<void> {
  const params = await world.prefill(prompt);
  const text = unpagedText(prompt, 6, { seed: SEED });
  const given = Int32Array.from([...prompt, ...text.slice(0, numMore)]);
  const { tokens } = await world.ended(
    d.engine.submit({ prompt: given, maxTokens: 6 - numMore, transferParams: params }),
  );
  expect([...tokens]).toEqual(text.slice(numMore));
}

describe('a hand-over of windows and chunks', () => {
  // Without the deviation `handOverWindows` one prompt in so many as a block has tokens lacks a block, and is computed again.
  const ways = Object.entries(WINDOWS).flatMap(([name, groups], i) =>
    [true, false].map((sharedMemory) => ({
      name,
      groups,
      sharedMemory,
      depth: (1 + (i % 3)) as 1 | 2 | 3,
    })),
  );
  // Both kinds of memory are among those.
  it.each(thinned(ways, 1))(
    'reads every prompt: $name, shared memory $sharedMemory, depth $depth',
    async (each) => {
      const { groups, sharedMemory, depth: pipelineDepth } = each;
      pair(groups, { pipelineDepth, enablePrefixCaching: false }, { sharedMemory });
      let numTokens = 0;
      for (let length = 2; length <= 37; length++) {
        numTokens += length - 1;
        await handOver(wordy(length, length), 0);
      }
      await world.rest();
      expect(d.worker.stats().reads).toMatchObject({ ok: 36, failed: 0, refused: 0 });
      expect(d.engine.stats().scheduler).toMatchObject({ externalHits: numTokens, failedLoads: 0 });
    },
  );

  it('without handOverWindows computes the prompts whose window was let go, and reads the others', async () => {
    pair(WINDOWS['a window'] as Groups, {
      deviations: ['handOverWindows'],
      enablePrefixCaching: false,
    });
    for (let length = 8; length < 24; length++) await handOver(wordy(length, length), 0);
    await world.rest();
    // Behind 9, 13, 17 and 21 tokens the first block of the window of 6 ends where the window of the last token begins.
    expect(d.connector.stats().loads).toBe(16 - 4);
  });

  it('reads no more than what the reader needs', async () => {
    pair(WINDOWS['a window'] as Groups, { enablePrefixCaching: false });
    await handOver(wordy(41, 1), 0);
    await world.rest();
    // 40 tokens: 10 blocks, and of the window the last 2.
    expect(d.worker.stats().ways.memoryBytes).toBe(12 * d.executor.kv.bytesPerBlock);
  });
});

describe('a hand-over of what is there in part', () => {
  it('reads only what stands behind the local prefix', async () => {
    pair(WINDOWS['a window'] as Groups);
    await handOver(wordy(21, 1), 0);
    const { memoryBytes: before } = d.worker.stats().ways;
    await handOver(Int32Array.from([...wordy(21, 1), ...wordy(20, 2)]), 0);
    await world.rest();
    // 40 tokens: 10 blocks, of which 5 are there; and of the window the last 2.
    expect(d.worker.stats().ways.memoryBytes - before).toBe(7 * d.executor.kv.bytesPerBlock);
  });

  it('offers no extent that nobody can resume behind', async () => {
    pair(WINDOWS['a window'] as Groups);
    const input = { prompt: wordy(21, 1), maxTokens: 9, transferParams: { doRemoteDecode: true } };
    const { transferParams } = await world.ended(p.engine.submit(input));
    // The window of the prompt's end was let go while 8 tokens more were computed.
    expect(transferParams).toMatchObject({ extents: [{ numTokens: 29 }] });
  });
});

describe('a hand-over of states', () => {
  it.each(
    Object.entries(STATES).flatMap(([name, { groups, hasCache }], i) =>
      [true, false].map((sharedMemory) => ({
        ...{ name, groups, hasCache, sharedMemory, depth: (1 + (i % 3)) as 1 | 2 | 3 },
      })),
    ),
  )('reads them with the first token: $name, shared memory $sharedMemory, depth $depth', async (each) => {
    const { groups, hasCache, sharedMemory, depth: pipelineDepth } = each;
    pair(groups, { pipelineDepth, enablePrefixCaching: hasCache }, { sharedMemory });
    for (let length = 2; length <= 20; length++) await handOver(wordy(length, length), 1);
    await world.rest();
    expect(d.worker.stats().reads).toMatchObject({ ok: 19, failed: 0, refused: 0 });
    expect(d.engine.stats().scheduler.failedLoads).toBe(0);
  });

  it('computes the prompt where the last token is missing, since its state is the only one', async () => {
    pair(STATES['at the ends of blocks']?.groups as Groups);
    for (let length = 2; length <= 20; length++) await handOver(wordy(length, length), 0);
    await world.rest();
    expect(d.worker.stats()).toMatchObject({ reads: { ok: 0, failed: 0, refused: 0 } });
    expect(p.worker.stats().leases).toMatchObject({ granted: 19, released: 19, expired: 0 });
  });

  it('is not offered where steps end at the ends of blocks, since nobody could load', async () => {
    pair([FULL, { type: 'mamba', mode: 'align' }]);
    const transferParams = { doRemoteDecode: true };
    const first = p.engine.submit({ prompt: wordy(9, 1), maxTokens: 1, transferParams });
    expect((await world.ended(first)).transferParams).toBeNull();
    expect(p.connector.stats().offered).toBe(0);
    await world.rest();
  });

  it('is not offered where a step in flight takes the state further', async () => {
    pair(STATES['at the ends of blocks']?.groups as Groups, { pipelineDepth: 3 });
    const prompt = wordy(17, 3);
    const [, second = 0] = unpagedText(prompt, 2, { seed: SEED });
    const first = p.engine.submit({
      ...{ prompt, maxTokens: 9, stopTokenIds: [second], transferParams: { doRemoteDecode: true } },
    });
    for (let steps = 0; steps < 3; steps++) p.engine.step();
    const { finishReason, transferParams } = await world.ended(first);
    expect([finishReason, transferParams]).toEqual(['stop', null]);
    await world.rest();
  });

  it('is not offered where states of drafts stand beside it', async () => {
    pair([FULL, { type: 'mamba', mode: 'all', numSpeculativeBlocks: 1 }]);
    const first = p.engine.submit({
      ...{ prompt: wordy(9, 1), maxTokens: 1, transferParams: { doRemoteDecode: true } },
    });
    expect((await world.ended(first)).transferParams).toBeNull();
    await world.rest();
  });
});

describe('a hand-over that fails', () => {
  it.each([
    ...Object.entries(WINDOWS),
    ...Object.entries(STATES).map(([name, { groups }]) => [name, groups] as const),
  ])('computes the prompt from its first token: %s', async (_, groups) => {
    const hasCache = groups.every(({ mode }) => mode !== 'none');
    pair(groups, { enablePrefixCaching: hasCache });
    const prompt = wordy(23, 1);
    const params = await world.prefill(prompt);
    const text = unpagedText(prompt, 6, { seed: SEED });
    const given = Int32Array.from([...prompt, ...text.slice(0, 1)]);
    const stream = d.engine.submit({ prompt: given, maxTokens: 5, transferParams: params });
    // The copy stands still, and meanwhile the lease ends.
    await world.stalledTurns(20);
    expect(d.worker.stats().reads).toMatchObject({ open: 1, ok: 0 });
    for (let i = 0; i < 3; i++) {
      world.time += LEASE_MS;
      await p.step();
    }
    expect(p.worker.stats().leases).toMatchObject({ expired: 1, open: 0 });
    const { tokens } = await world.ended(stream);
    expect([...tokens]).toEqual(text.slice(1));
    expect(d.engine.stats().scheduler.failedLoads).toBe(1);
    await world.rest();
  });

  it('with other groups is refused before anything is asked', async () => {
    world = new World();
    const engine = { numBlocks: 90 };
    p = world.add('p', { engine: { ...engine, kvGroups: [FULL, { type: 'sliding', window: 6 }] } });
    d = world.add('d', { engine: { ...engine, kvGroups: [FULL, { type: 'sliding', window: 7 }] } });
    await handOver(wordy(20, 1), 0);
    expect(d.connector.stats()).toMatchObject({ otherSettings: 1, loads: 0 });
  });
});

describe('what a peer says of a lease', () => {
  type Opened = { kind: string; blocks: number[][]; fewest: number; most: number };

  /** Makes a peer send another message when a read begins. */
  function tamper(change: (opened: Opened) => void): void {
    const deliver = world.hub.deliver.bind(world.hub);
    world.hub.deliver = (parcel) => {
      const [header, ...rest] = parcel.frames;
      const envelope = decode(header);
      if (envelope?.message.kind !== 'opened') return deliver(parcel);
      change(envelope.message as unknown as Opened);
      return deliver({ ...parcel, frames: [encode(envelope), ...rest] });
    };
  }

  it.each<[string, (opened: Opened) => void]>([
    ['needs more tokens', (opened) => (opened.fewest = 23)],
    ['has fewer tokens', (opened) => (opened.most = 21)],
    ['lacks a place of the window', ({ blocks }) => blocks[1]?.fill(0)],
    ['lacks a group', ({ blocks }) => blocks.pop()],
    ['has a group more', ({ blocks }) => blocks.push([1])],
    ['lacks the last block', ({ blocks }) => blocks[0]?.pop()],
  ])('is checked: it %s', async (_, change) => {
    for (const sharedMemory of [true, false]) {
      world = new World();
      pair(WINDOWS['a window'] as Groups, {}, { sharedMemory });
      tamper(change);
      await handOver(wordy(23, 1), 0);
      expect(d.worker.stats().reads).toMatchObject({ ok: 0, failed: 1 });
      expect(d.engine.stats().scheduler.failedLoads).toBe(1);
      await world.rest();
    }
  });

  it('is no message without both bounds', () => {
    const opened = { kind: 'opened', transfer: 't', blocks: [[1]], fewest: 0, most: 1 } as const;
    const read = (message: object) => decode(encode({ from: 'p', to: 'd', message } as never));
    expect(read(opened)?.message).toEqual(opened);
    for (const name of ['fewest', 'most'])
      for (const value of [undefined, -1, 0.5, '1']) expect(read({ ...opened, [name]: value })).toBeNull();
  });

  it('counts more than what the client says', async () => {
    pair(WINDOWS['a window'] as Groups, { deviations: ['handOverWindows'] });
    const prompt = wordy(21, 1);
    const params = structuredClone(await world.prefill(prompt)) as { extents: { from?: number }[] };
    // Behind 21 tokens the window of 20 was let go; the client leaves that out.
    for (const extent of params.extents) Reflect.deleteProperty(extent, 'from');
    const { tokens } = await world.ended(
      d.engine.submit({ prompt, maxTokens: 6, transferParams: { ...params } }),
    );
    expect([...tokens]).toEqual([...unpagedText(prompt, 6, { seed: SEED })]);
    expect(d.worker.stats().reads).toMatchObject({ ok: 0, failed: 1 });
    for (const from of [-1, 'x', 2.5]) {
      const again = structuredClone(await world.prefill(wordy(21, 2))) as { extents: object[] };
      for (const extent of again.extents) Object.assign(extent, { from });
      await world.ended(
        d.engine.submit({ prompt: wordy(21, 2), maxTokens: 1, transferParams: { ...again } }),
      );
    }
    expect(d.connector.stats().badParams).toBe(3);
  });
});
