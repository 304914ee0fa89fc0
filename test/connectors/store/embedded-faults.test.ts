import { execFileSync, spawn } from 'node:child_process';
import {
  closeSync,
  existsSync,
  openSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { scriptArguments } from '../../../src/base/scripts/script-file.js';
import { EmbeddedStore } from '../../../src/connectors/store/embedded/embedded-store.js';
import { ProcessStore } from '../../../src/connectors/store/embedded/process-store.js';
import { Outcome } from '../../../src/connectors/store/stores/block-store.js';
import { seal, unseal } from '../../../src/connectors/store/stores/sealed-value.js';
import { Random } from '../../support/engine-bench.js';
import { share } from '../../support/share.js';
import { temporaryFolder } from '../../support/temp-file.js';
import { pause, until } from '../../support/waiting.js';
import { end, live, serve } from './support/life.js';

const SIZE = 10_000;
const WRITER = scriptArguments(import.meta.url, 'support/writer');

function open(path: string, maxBytes = 2 ** 24): Promise<ProcessStore> {
  return ProcessStore.open({ kind: 'embedded', path, maxBytes }, (error) => {
    throw error;
  });
}

function put(store: ProcessStore, keys: readonly string[], size = SIZE): Promise<Uint8Array> {
  return store.put(
    keys,
    keys.map((key) => seal(key, Buffer.alloc(size, key))),
  );
}

/** How many of the keys are there. Everything that is there must be whole. */
async function whole(store: ProcessStore, keys: readonly string[], size = SIZE): Promise<number> {
  let count = 0;
  await store.get(keys, (i, value) => {
    if (value === null) return;
    const content = unseal(keys[i], value, size);
    expect(content, keys[i]).not.toBe(null);
    expect(Buffer.alloc(size, keys[i]).equals(content as Uint8Array)).toBe(true);
    count++;
  });
  return count;
}

function namesOf(letter: string, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `${letter}${i}`);
}

/** Starts processes that store, each under names of its own. */
function writers(path: string, maxBytes: number, letters: string) {
  return [...letters].map((letter) => {
    const child = spawn(process.execPath, [...WRITER, path, `${maxBytes}`, letter]);
    onTestFinished(() => void child.kill('SIGKILL'));
    const heard = { child, rounds: 0, errors: '' };
    child.stdout.on('data', (dots: Buffer) => {
      heard.rounds += dots.length;
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      heard.errors += text;
    });
    return heard;
  });
}

function told({ rounds, errors }: { rounds: number; errors: string }): string {
  return `${rounds} rounds ${errors}`;
}

describe('a file of LMDB', () => {
  it('removes what was unused for longest, and keeps its bound', async () => {
    const path = join(temporaryFolder(), 'kv.lmdb');
    // Ten values of three pages each; a page is 4,096 bytes.
    let store = await open(path, 2 ** 20);
    const most = Math.floor(2 ** 20 / (3 * 4096));
    const first = namesOf('a', most);
    expect((await put(store, first)).every((outcome) => outcome === Outcome.done)).toBe(true);
    await pause(5);
    expect(await whole(store, ['a0', 'a5'])).toBe(2);
    await pause(5);
    await put(store, namesOf('b', 10));
    expect(await whole(store, ['a0', 'a5'])).toBe(2);
    expect(await whole(store, [...first, ...namesOf('b', 10)])).toBe(most);
    expect(await whole(store, namesOf('b', 10))).toBe(10);
    // What was read last is known after the file was closed, too.
    await store.close();
    store = await open(path, 2 ** 20);
    await put(store, namesOf('c', most - 20));
    expect(await whole(store, namesOf('b', 10))).toBe(10);
    for (let round = 0; round < 60; round++) await put(store, namesOf(`d${round}-`, 30));
    expect(await whole(store, namesOf('d59-', 30))).toBe(30);
    expect(statSync(path).size).toBeLessThan(4 * 2 ** 20);
    expect([...(await put(store, ['large'], 2 ** 20))]).toEqual([Outcome.full]);
    await store.close();
  });

  const damages: Record<string, (path: string) => void> = {
    'is overwritten at its beginning': (path) => overwrite(path, 0, 20_000),
    'is cut off': (path) => truncateSync(path, 4096 * Math.floor(statSync(path).size / 8192)),
    'is cut off to almost nothing': (path) => truncateSync(path, 5000),
    'is overwritten here and there': (path) => {
      const { size } = statSync(path);
      for (let at = 3 * 4096; at < size; at += 17 * 4096) overwrite(path, at, 4096);
    },
    'is something else': (path) => writeFileSync(path, 'This is no database.'.repeat(1000)),
  };
  it.each(Object.entries(damages))('that %s costs hits', async (_name, damage) => {
    const path = join(temporaryFolder(), 'kv.lmdb');
    const names = namesOf('a', 60);
    let store = await open(path);
    await put(store, names);
    await store.close();
    damage(path);
    store = await open(path);
    let found = 0;
    await store.get(names, (i, value) => {
      // Either it is right, or it is refused.
      const content = value === null ? null : unseal(names[i], value, SIZE);
      if (content === null) return;
      found++;
      expect(Buffer.alloc(SIZE, names[i]).equals(content)).toBe(true);
    });
    expect(found).toBeLessThan(60);
    expect([...(await put(store, ['x', 'y']))]).toEqual([Outcome.done, Outcome.done]);
    expect(await whole(store, ['x', 'y'])).toBe(2);
    await store.close();
  });

  it('survives that its writers are killed, in the middle of what they write', async () => {
    const path = join(temporaryFolder(), 'kv.lmdb');
    const random = new Random(1);
    const kills = Number(process.env['BLOCKSTEP_STORE_KILLS'] ?? share(1, 2, 4));
    for (let kill = 0; kill < kills; kill++) {
      const [a, b] = writers(path, 2 ** 21, 'ab');
      await until(
        () => a.rounds > 3 && b.rounds > 3,
        () => `rounds of two writers: ${told(a)}, ${told(b)};`,
      );
      await pause(random.below(10));
      a.child.kill('SIGKILL');
      // The other one goes on, although the killed one may have had the lock.
      const { rounds } = b;
      await until(
        () => b.rounds > rounds + 3,
        () => `rounds after the kill: ${told(b)};`,
      );
      b.child.kill('SIGKILL');
      const store = await open(path, 2 ** 21);
      expect(await whole(store, [...namesOf('a', 100), ...namesOf('b', 100)])).toBeGreaterThan(50);
      expect(await isConsistent(path)).toBe(true);
      await store.close();
    }
  }, 3_600_000);

  it('that cannot be read is refused at the start', () => {
    const folder = temporaryFolder();
    expect(() => serve({ store: { path: folder } })).toThrow(/ERR_BLOCKSTEP_BAD_FILE|cannot be used/);
  });
});

/** Whether this process may mount a file system. */
const mayMount = (() => {
  try {
    const folder = '/tmp/blockstep-mount-try';
    execFileSync(
      'sh',
      ['-c', `mkdir -p ${folder} && mount -t tmpfs -o size=1m none ${folder} && umount ${folder}`],
      {
        stdio: 'ignore',
      },
    );
    return true;
  } catch {
    return false;
  }
})();
if (!mayMount) console.log('skipped: a full disk, since this process may not mount one');

describe.skipIf(!mayMount)('a disk that is full', () => {
  it('costs hits, and no request', async () => {
    const folder = temporaryFolder();
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=84k', 'none', folder]);
    onTestFinished(() => {
      execFileSync('umount', ['-l', folder]);
    });
    const served = serve({ store: { path: join(folder, 'kv.lmdb'), maxBytes: 2 ** 24 }, pipelineDepth: 2 });
    await live(served, { seed: 2, requests: 40, prompts: 30, aborts: 0 });
    const { store } = served.workers[0].stats();
    expect(store.full).toBeGreaterThan(0);
    expect(store).toMatchObject({ state: 'up', deaths: 0 });
    await end(served);
  });
});

function overwrite(path: string, at: number, size: number): void {
  const file = openSync(path, 'r+');
  const junk = Buffer.alloc(size);
  const random = new Random(at + 1);
  for (let i = 0; i < size; i++) junk[i] = random.below(256);
  writeSync(file, junk, 0, size, at);
  closeSync(file);
  expect(existsSync(path) && readFileSync(path).length > 0).toBe(true);
}

/** Whether values, uses and order of a file have the same keys: what was killed left no half of a transaction. */
async function isConsistent(path: string): Promise<boolean> {
  const store = await EmbeddedStore.open({ kind: 'embedded', path, maxBytes: 2 ** 21 });
  try {
    return store.isConsistent();
  } finally {
    await store.close();
  }
}
