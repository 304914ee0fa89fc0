import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { scriptArguments } from '../../../src/base/scripts/script-file.js';
import { StoreThread } from '../../../src/connectors/store/client/store-thread.js';
import { ProcessStore } from '../../../src/connectors/store/embedded/process-store.js';
import { SeenWindows, SentWindows } from '../../../src/connectors/store/embedded/windows.js';
import { Outcome } from '../../../src/connectors/store/stores/block-store.js';
import { BlockArena } from '../../../src/transfer/block-arena.js';
import { share, thinned } from '../../support/share.js';
import { temporaryFolder } from '../../support/temp-file.js';
import { pause, until } from '../../support/waiting.js';
import { childrenOf, isAlive } from './support/children.js';
import { done, there } from './support/drive.js';

const ENDING = scriptArguments(import.meta.url, 'support/ending');
/** How often each end is tried: the thread is not always in the middle of a write. */
const TIMES = share(1, 1, 3);

/** Equal values have equal ones. Large values are compared for long by what they have. */
function digest(value: Uint8Array | null): string | null {
  return value === null ? null : `${value.length}:${createHash('sha256').update(value).digest('hex')}`;
}

/** Starts a process that stores values, and waits until it does. */
async function storing(path: string, way: string) {
  const child = spawn(process.execPath, [...ENDING, path, way], { stdio: ['ignore', 'pipe', 'pipe'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  let [said, errors] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  const exit = once(child, 'exit') as Promise<[number | null, string | null]>;
  await until(
    () => said.includes('store '),
    () => `values on their way: ${said} ${errors}`,
  );
  const pid = Number(/store (\d+)/.exec(said)?.[1]);
  return { child, exit, pid };
}

describe('the process of a file of LMDB', () => {
  it.each(
    thinned(
      [
        ['exit', [7, null]],
        ['throw', [1, null]],
        ['worker-exit', [7, null]],
        ['worker', [7, null]],
      ] as const,
      2,
    ),
  )(
    'lets the process of the engine end in the middle of a write (%s), and ends with it',
    async (way, end) => {
      const path = join(temporaryFolder(), 'kv.lmdb');
      for (let i = 0; i < TIMES; i++) {
        const { exit, pid } = await storing(path, way);
        expect(await exit).toEqual(end);
        await until(() => !isAlive(pid), 'the end of the process of the file');
      }
      const store = await ProcessStore.open({ kind: 'embedded', path, maxBytes: 2 ** 24 }, () => {});
      const keys = Array.from({ length: 200 }, (_, i) => `k${i}`);
      expect([...(await store.has(keys))]).toContain(Outcome.done);
      await store.close();
    },
  );

  it('ends when the process of the engine is killed, and not by what is typed at a terminal', async () => {
    const { child, pid, exit } = await storing(join(temporaryFolder(), 'kv.lmdb'), 'never');
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.kill(pid, signal);
    await pause(100);
    expect(isAlive(pid)).toBe(true);
    child.kill('SIGKILL');
    await exit;
    await until(() => !isAlive(pid), 'the end of the process of the file');
  });

  it('costs its jobs when it is killed, and is started again', async () => {
    let now = 0;
    const before = childrenOf(process.pid);
    const staging = BlockArena.allocate({ numBlocks: 4, bytesPerBlock: 512 });
    const store = { path: join(temporaryFolder(), 'kv.lmdb'), maxBytes: 2 ** 24 };
    const thread = new StoreThread({ store, staging, pauseMs: 10, now: () => now });
    onTestFinished(() => thread.close());
    expect(await done(thread, 'put', ['k'], [0])).toEqual([Outcome.done]);
    const [pid] = childrenOf(process.pid).filter((child) => !before.includes(child));
    process.kill(pid, 'SIGKILL');
    await until(() => {
      thread.drain();
      return thread.stats().deaths > 0;
    }, 'the death of the thread');
    expect(thread.stats().lastError).toMatch(/the process of the file ended with SIGKILL/);
    expect(await there(thread, ['k'])).toEqual([Outcome.failed]);
    now += 10;
    expect(await done(thread, 'get', ['k'], [1])).toEqual([Outcome.done]);
  });

  it('gives back whatever sizes it was given, and finds nothing where nothing is', async () => {
    const path = join(temporaryFolder(), 'kv.lmdb');
    const store = await ProcessStore.open({ kind: 'embedded', path, maxBytes: 2 ** 26 }, () => {});
    const sizes = [1, 3_000_000, 7, 70_000, 5_000_001];
    const values = sizes.map((size, i) => Buffer.alloc(size, `v${i}`));
    const keys = sizes.map((_, i) => `k${i}`);
    expect([...(await store.put(keys, values))]).toEqual(sizes.map(() => Outcome.done));
    for (const order of [
      [4, 3, 2, 1, 0],
      [0, 1, 2, 3, 4],
      [2, 2],
      [9, 1, 8],
    ]) {
      const found: (Buffer | null)[] = [];
      await store.get(
        order.map((i) => `k${i}`),
        (_, value) => found.push(value === null ? null : Buffer.from(value)),
      );
      expect(found.map(digest)).toEqual(order.map((i) => digest(values[i] ?? null)));
    }
    await store.remove(['k1']);
    expect([...(await store.has(keys))]).toEqual([1, 2, 1, 1, 1]);
    await store.close();
    await expect(store.has(['k0'])).rejects.toThrow('the process of the file has ended');
  });
});

describe('values on their way to another process', () => {
  const values = [Buffer.from('abc'), null, Buffer.alloc(0), Buffer.alloc(2_000_000, 'x'), Buffer.from('z')];

  it('go in windows that are used again, also behind a larger one', () => {
    const sent = new SentWindows();
    const seen = new SeenWindows();
    const ids = new Set<string>();
    for (let round = 0; round < 6; round++) {
      const parcel = sent.begin(values.length);
      for (const value of values) parcel.add(value);
      const packed = parcel.end();
      expect(packed.bytes).toBe(null);
      ids.add(packed.window?.id ?? '');
      expect(seen.unpack(packed).map(digest)).toEqual(values.map(digest));
      parcel.free();
    }
    expect(ids.size).toBe(1);
    sent.dispose();
    seen.dispose();
  });

  it('go in messages where no memory can be shared', () => {
    const allocate = vi.spyOn(BlockArena, 'allocate').mockImplementation(() => {
      throw new Error('no');
    });
    onTestFinished(() => allocate.mockRestore());
    const sent = new SentWindows();
    const parcel = sent.begin(values.length);
    for (const value of values) parcel.add(value);
    const packed = parcel.end();
    expect(packed.window).toBe(null);
    expect(new SeenWindows().unpack(packed).map(digest)).toEqual(values.map(digest));
    parcel.free();
  });
});
