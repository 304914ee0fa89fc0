// A user's own store: answers, mistakes, hangs, its end.
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { MemoryStore } from '../../../examples/memory-store.js';
import { StoreThread } from '../../../src/connectors/store/client/store-thread.js';
import { type BlockStore, Outcome } from '../../../src/connectors/store/index.js';
import { SEAL_BYTES } from '../../../src/connectors/store/stores/sealed-value.js';
import { BlockArena } from '../../../src/transfer/block-arena.js';
import { done, there, turns } from './support/drive.js';

const { done: DONE, missing: MISSING, corrupt: CORRUPT, failed: FAILED } = Outcome;
const BYTES = 64;

/** A thread over a store of one's own, whose methods may be others. */
function over(changes: Partial<BlockStore> = {}, open?: () => Promise<BlockStore>, bytesPerBlock = BYTES) {
  const kept = new MemoryStore(2 ** 26);
  const store: BlockStore = {
    has: (keys) => kept.has(keys),
    get: (keys, visit) => kept.get(keys, visit),
    put: (keys, values) => kept.put(keys, values),
    remove: (keys) => kept.remove(keys),
    close: vi.fn(() => kept.close()),
    ...changes,
  };
  const clock = { now: 0 };
  const staging = BlockArena.allocate({ numBlocks: 16, bytesPerBlock });
  const thread = new StoreThread({
    store: { open: open ?? (() => Promise.resolve(store)) },
    ...{ staging, timeoutMs: 100, pauseMs: 10, now: () => clock.now },
  });
  onTestFinished(async () => {
    vi.useRealTimers();
    void thread.close();
    await thread.close();
    staging.dispose();
  });
  return { kept, store, clock, staging, thread };
}

/** Has values of blocks 0 to 3 stored under a to d. */
async function fill({ thread, staging }: ReturnType<typeof over>): Promise<void> {
  for (let i = 0; i < 4; i++) staging.block(i).fill(i + 1);
  expect(await done(thread, 'put', ['a', 'b', 'c', 'd'], [0, 1, 2, 3])).toEqual([DONE, DONE, DONE, DONE]);
}

afterEach(() => {
  vi.useRealTimers();
});

describe('a store of one’s own', () => {
  it('gives back what was put, byte by byte', async () => {
    const made = over();
    await fill(made);
    const { thread, staging, kept } = made;
    expect(await there(thread, ['a', 'x', 'd'])).toEqual([DONE, MISSING, DONE]);
    expect(await done(thread, 'get', ['d', 'y', 'a'], [8, 9, 10])).toEqual([DONE, MISSING, DONE]);
    expect(staging.block(8)).toEqual(staging.block(3));
    expect(staging.block(9).every((byte) => byte === 0)).toBe(true);
    expect(staging.block(10)).toEqual(staging.block(0));
    // The values are the store's own: a later write to the places changes none.
    staging.block(0).fill(99);
    expect(await done(thread, 'get', ['a'], [11])).toEqual([DONE]);
    expect(staging.block(11).every((byte) => byte === 1)).toBe(true);
    await kept.get(['a'], (_, value) => expect(value?.length).toBe(BYTES + SEAL_BYTES));
    expect(thread.stats()).toMatchObject({ state: 'up', hits: 3, misses: 1, stored: 4, failures: 0 });
  });

  it('is never called by the call that needs it, since that may be a step', async () => {
    const has = vi.fn((keys: readonly string[]) => Promise.resolve(new Uint8Array(keys.length).fill(DONE)));
    const { thread } = over({ has });
    await turns();
    thread.has(['a'], () => {});
    thread.drain();
    expect(has).not.toHaveBeenCalled();
    await turns();
    expect(has).toHaveBeenCalledOnce();
  });

  it('that gives garbage, or what belongs to another key, costs a miss', async () => {
    const removed: string[] = [];
    const made = over({
      get: async (keys, visit) => {
        for (const [i, key] of keys.entries())
          await made.kept.get([key === 'b' ? 'c' : key], (_, value) => {
            if (value === null) throw new Error('not there');
            visit(i, key === 'a' ? value.subarray(1) : key === 'd' ? Buffer.alloc(value.length) : value);
          });
      },
      remove: (keys) => Promise.resolve(void removed.push(...keys)),
    });
    await fill(made);
    const { thread, staging } = made;
    expect(await done(thread, 'get', ['a', 'b', 'c', 'd'], [8, 9, 10, 11])).toEqual([
      ...[CORRUPT, CORRUPT, DONE, CORRUPT],
    ]);
    for (const place of [8, 9, 11]) expect(staging.block(place).every((byte) => byte === 0)).toBe(true);
    expect(removed).toEqual(['a', 'b', 'd']);
    expect(thread.stats()).toMatchObject({ state: 'up', corrupt: 3, failures: 0 });
  });

  const DOWN: Record<string, Partial<BlockStore>> = {
    'has too few outcomes': { has: () => Promise.resolve(Uint8Array.of(DONE)) },
    'has too many outcomes': { has: () => Promise.resolve(new Uint8Array(3).fill(DONE)) },
    'has an outcome that does not exist': { has: () => Promise.resolve(Uint8Array.of(DONE, 9)) },
    'has an outcome of something else': { has: () => Promise.resolve(Uint8Array.of(DONE, Outcome.full)) },
    'has no list': { has: () => Promise.resolve([DONE, DONE] as never) },
    'has nothing': { has: (() => undefined) as never },
    'has, and throws at once': {
      has: () => {
        throw new Error('no promise');
      },
    },
    'has, and rejects with null': { has: () => Promise.reject(null) },
  };
  it.each(Object.entries(DOWN))('that %s counts as down', async (_name, changes) => {
    const { thread, clock } = over(changes);
    expect(await there(thread, ['a', 'b'])).toEqual([FAILED, FAILED]);
    expect(thread.stats()).toMatchObject({ state: 'down', failures: 1, found: 0 });
    expect(thread.stats().lastError).not.toBe(null);
    expect(thread.accepts).toBe(false);
    clock.now += 10;
    expect(thread.accepts).toBe(true);
  });

  it.each([
    ['too few', () => Promise.resolve(Uint8Array.of(DONE))],
    ['those of something else', () => Promise.resolve(Uint8Array.of(DONE, MISSING))],
    ['none', () => Promise.reject(new Error('disk on fire'))],
  ])('whose put answers outcomes that are %s counts as down', async (_name, put) => {
    const { thread } = over({ put });
    expect(await done(thread, 'put', ['a', 'b'], [0, 1])).toEqual([FAILED, FAILED]);
    expect(thread.stats()).toMatchObject({ state: 'down', takesValues: false, stored: 0, failures: 1 });
  });

  /** The fault, how `get` causes it, the results of two keys, and the message. */
  const GETS: [string, (kept: MemoryStore) => BlockStore['get'], number[], RegExp][] = [
    [
      'calls back twice',
      (kept) => async (keys, visit) => {
        await kept.get(keys, visit);
        await kept.get(keys, visit);
      },
      [DONE, DONE],
      /key 0 twice/,
    ],
    [
      'calls back for one key only',
      (kept) => (keys, visit) => kept.get(keys.slice(0, 1), visit),
      [DONE, FAILED],
      /key 1/,
    ],
    [
      'calls back for a key too much',
      (kept) => (keys, visit) => kept.get([...keys, 'c'], visit),
      [DONE, DONE],
      /key 2 of 2/,
    ],
    [
      'calls back for half a key',
      () => (_keys, visit) => Promise.resolve(visit(0.5, null)),
      [FAILED, FAILED],
      /key 0.5/,
    ],
    [
      'calls back for something',
      () => (_keys, visit) => Promise.resolve(visit({ toString: () => '0' } as never, null)),
      [FAILED, FAILED],
      /an object/,
    ],
    [
      'gives text',
      () => (keys, visit) => Promise.resolve(keys.forEach((key, i) => void visit(i, key as never))),
      [FAILED, FAILED],
      /expected a Uint8Array/,
    ],
    [
      'sorts the keys',
      (kept) => (keys, visit) => kept.get((keys as string[]).sort().reverse(), visit),
      [FAILED, FAILED],
      /TypeError/,
    ],
    [
      'rejects in the middle',
      (kept) => async (keys, visit) => {
        await kept.get(keys.slice(0, 1), visit);
        throw new Error('gone');
      },
      [DONE, FAILED],
      /gone/,
    ],
  ];
  it.each(GETS)('that %s counts as down', async (_name, get, outcomes, said) => {
    const made = over({ get: (...given) => get(made.kept)(...given) });
    await fill(made);
    const { thread, staging } = made;
    expect(await done(thread, 'get', ['a', 'b'], [8, 9])).toEqual(outcomes);
    for (const [i, outcome] of outcomes.entries())
      expect([...staging.block(8 + i)]).toEqual(new Array(BYTES).fill(outcome === DONE ? i + 1 : 0));
    expect(thread.stats()).toMatchObject({
      state: 'down',
      failures: 1,
      lastError: expect.stringMatching(said),
    });
  });

  it('that calls back after its get was over counts as down, and writes nothing', async () => {
    let late = (): void => {};
    const made = over({
      get: (keys, visit) => {
        late = () => void made.kept.get(['b'], (_, value) => visit(0, value));
        return made.kept.get(keys, visit);
      },
    });
    await fill(made);
    const { thread, staging } = made;
    expect(await done(thread, 'get', ['a'], [8])).toEqual([DONE]);
    staging.block(8).fill(77);
    for (let i = 0; i < 3; i++) late();
    expect(await there(thread, ['a'])).toEqual([DONE]);
    expect(staging.block(8).every((byte) => byte === 77)).toBe(true);
    expect(thread.stats()).toMatchObject({
      failures: 1,
      lastError: expect.stringMatching(/after it was over/),
    });
  });

  it('is opened again after a pause if it could not be opened', async () => {
    const ways = [
      () => Promise.reject(new Error('no route')),
      () => Promise.resolve({ has: () => {} } as never),
      () => {
        throw new Error('no promise');
      },
    ];
    const made = over({}, () => ways.shift()?.() ?? Promise.resolve(made.store));
    const { thread, clock } = made;
    await turns();
    for (const said of [/no method get/, /no promise/]) {
      expect(await there(thread, ['a'])).toEqual([FAILED]);
      expect(thread.stats()).toMatchObject({ state: 'down', lastError: expect.stringMatching(said) });
      clock.now += 1000;
    }
    expect(await there(thread, ['a'])).toEqual([MISSING]);
    expect(thread.stats()).toMatchObject({ state: 'up', failures: 2 });
  });
});

describe('a store of one’s own that hangs', () => {
  it('has its places taken away when its time is over, and what comes late is written nowhere', async () => {
    const calls: { goOn: () => void; signal: AbortSignal }[] = [];
    const made = over({
      get: async (keys, visit, signal) => {
        if (keys[0] === 'd') return made.kept.get(keys, visit);
        await new Promise<void>((goOn) => calls.push({ goOn, signal }));
        return made.kept.get(keys, visit);
      },
    });
    await fill(made);
    const { thread, staging, clock } = made;
    await turns();
    const told: string[] = [];
    const get = (key: string, place: number) =>
      thread.get(
        [key],
        Int32Array.of(place),
        ([end]) => told.push(`${key} ends ${end}`),
        () => told.push(`${key} frees`),
      );
    get('a', 8);
    await turns();
    clock.now += 99;
    thread.drain();
    expect(told).toEqual([]);
    clock.now += 1;
    thread.drain();
    expect(told).toEqual([`a ends ${FAILED}`, 'a frees']);
    await turns();
    expect(calls[0].signal.aborted).toBe(true);
    // Somebody else has the place now.
    staging.block(8).fill(77);
    calls[0].goOn();
    await turns();
    expect(staging.block(8).every((byte) => byte === 77)).toBe(true);
    expect(thread.stats()).toMatchObject({ state: 'down', timeouts: 1, late: 0, pending: 0 });
    clock.now += 10;
    expect(await done(thread, 'get', ['d'], [9])).toEqual([DONE]);
    expect(thread.stats()).toMatchObject({ state: 'up', failures: 1 });
  });

  it('has two calls of each kind at most, and what was given up meanwhile is never called', async () => {
    const asked: string[] = [];
    let free = (): void => {};
    const gate = new Promise<void>((resolve) => {
      free = resolve;
    });
    const made = over({
      has: async (keys) => {
        asked.push(keys[0]);
        await gate;
        return made.kept.has(keys);
      },
    });
    const { thread, clock } = made;
    await fill(made);
    for (const key of ['a', 'b', 'c']) thread.has([key], () => {});
    await turns();
    expect(asked).toEqual(['a', 'b']);
    for (let i = 0; i < 20; i++) {
      clock.now += 6000;
      thread.drain();
      thread.has([`probe${i}`], () => {});
      await turns();
    }
    clock.now += 6000;
    thread.drain();
    expect(thread.stats().pending).toBe(0);
    // Calls that write do not wait for calls that read.
    clock.now += 6000;
    expect(await done(thread, 'put', ['e'], [4])).toEqual([DONE]);
    expect(asked).toEqual(['a', 'b']);
    free();
    await turns();
    expect(await there(thread, ['e'])).toEqual([DONE]);
    expect(asked).toEqual(['a', 'b', 'e']);
  });

  it('does not keep anybody from ending', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    let goOn = (): void => {};
    const made = over({
      get: async (keys, visit) => {
        await new Promise<void>((resolve) => {
          goOn = resolve;
        });
        return made.kept.get(keys, visit);
      },
      close: vi.fn(() => new Promise<void>(() => {})),
    });
    const { thread, store, staging } = made;
    await turns();
    thread.get(['a'], Int32Array.of(8), () => {});
    await turns();
    let isOver = false;
    void thread.close().then(() => {
      isOver = true;
    });
    vi.advanceTimersByTime(1999);
    await turns();
    expect([isOver, vi.mocked(store.close).mock.calls.length]).toEqual([false, 0]);
    vi.advanceTimersByTime(1);
    await turns();
    expect([isOver, vi.mocked(store.close).mock.calls.length]).toEqual([true, 1]);
    goOn();
    await turns();
    expect(staging.block(8).every((byte) => byte === 0)).toBe(true);
  });
});

describe('the end of a store of one’s own', () => {
  it('waits for what was given to it', async () => {
    const order: string[] = [];
    const made = over({
      put: async (keys, values) => {
        for (let i = 0; i < 20; i++) await turns();
        order.push('put');
        return made.kept.put(keys, values);
      },
      close: () => Promise.resolve(void order.push('close')),
    });
    made.thread.put(['a'], Int32Array.of(0), () => {});
    await made.thread.close();
    expect(order).toEqual(['put', 'close']);
    expect(await there(made.thread, ['a'])).toEqual([FAILED]);
  });

  it('closes what was opened too late', async () => {
    let give = (_store: BlockStore): void => {};
    const opening = new Promise<BlockStore>((resolve) => {
      give = resolve;
    });
    const { thread, store } = over({}, () => opening);
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const closing = thread.close();
    vi.advanceTimersByTime(2000);
    await closing;
    expect(store.close).not.toHaveBeenCalled();
    give(store);
    await turns();
    expect(store.close).toHaveBeenCalledOnce();
  });
});

it('large values are sealed one by one, so that other work is done in between', async () => {
  const made = over({}, undefined, 2 ** 20);
  const { thread } = made;
  await turns();
  let numTurns = 0;
  let isOver = false;
  thread.put(['a', 'b', 'c', 'd', 'e', 'f'], Int32Array.of(0, 1, 2, 3, 4, 5), () => {
    isOver = true;
  });
  for (; !isOver; numTurns++) {
    await turns(1);
    thread.drain();
  }
  expect(numTurns).toBeGreaterThanOrEqual(5);
});
