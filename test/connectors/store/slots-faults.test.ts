// Damaged files, killed writers, a full disk, a read-only disk; the lock of a file.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  copyFileSync,
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
import { writeIdentity } from '../../../src/connectors/store/slots/head.js';
import { SlotFile } from '../../../src/connectors/store/slots/slot-file.js';
import { Outcome } from '../../../src/connectors/store/stores/block-store.js';
import { Random } from '../../support/engine-bench.js';
import { share } from '../../support/share.js';
import { temporaryFolder } from '../../support/temp-file.js';
import { pause, until } from '../../support/waiting.js';
import { end, live, serve } from './support/life.js';
import { namesOf, openSlots, put, whole } from './support/slots.js';

const WRITER = scriptArguments(import.meta.url, 'support/writer');
const NAMES = namesOf('a', 60);
const DIRECTORY_AT = 2 ** 14;

function newPath(): string {
  return join(temporaryFolder(), 'kv.slots');
}

/** Starts a process that stores. */
function writer(path: string, maxBytes: number, letter: string, env: NodeJS.ProcessEnv = {}) {
  const child = spawn(process.execPath, [...WRITER, path, `${maxBytes}`, letter], {
    env: { ...process.env, ...env },
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const heard = { child, rounds: 0, errors: '', over: once(child, 'close') };
  child.stdout.on('data', (dots: Buffer) => {
    heard.rounds += dots.length;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    heard.errors += text;
  });
  return heard;
}

/** Each kind of damage, and whether the file still counts as a file of slots. */
const DAMAGES: Readonly<Record<string, (path: string) => void>> = {
  'is overwritten in its first half': (path) => overwrite(path, 0, 8000),
  'is overwritten where its size of slots stands': (path) => overwrite(path, 8192, 100),
  'has lost its directory': (path) => overwrite(path, DIRECTORY_AT, 65_536),
  'is cut off': (path) => truncateSync(path, Math.floor(statSync(path).size / 2)),
  'is cut off to almost nothing': (path) => truncateSync(path, 5000),
  'is empty': (path) => truncateSync(path, 0),
  'is filled with zeros': (path) => writeFileSync(path, Buffer.alloc(statSync(path).size)),
  'is filled with zeros from its slots on': (path) => {
    const bytes = readFileSync(path);
    writeFileSync(path, bytes.fill(0, DIRECTORY_AT + 65_536));
  },
  'is overwritten here and there': (path) => {
    const { size } = statSync(path);
    for (let at = DIRECTORY_AT; at < size; at += 17 * 512) overwrite(path, at, 512);
  },
  'has bits that were flipped everywhere': (path) => {
    const bytes = readFileSync(path);
    const random = new Random(5);
    for (let i = 0; i < 3000; i++) bytes[random.below(bytes.length)] ^= 1 << random.below(8);
    writeFileSync(path, bytes);
  },
  'has the values of others': (path) => {
    // Two slots change places, and no directory records it.
    const bytes = readFileSync(path);
    const [slot, first] = [3 * 4096, DIRECTORY_AT + 65_536];
    const copy = Buffer.from(bytes.subarray(first, first + slot));
    bytes.copyWithin(first, first + slot, first + 2 * slot);
    copy.copy(bytes, first + slot);
    writeFileSync(path, bytes);
  },
};

describe('a file of slots', () => {
  it.each(Object.entries(DAMAGES))('that %s costs hits', async (_name, damage) => {
    const path = newPath();
    let slots = openSlots(path);
    await put(slots.store, NAMES);
    slots.close();
    damage(path);
    slots = openSlots(path);
    expect(await whole(slots.store, NAMES)).toBeLessThan(60);
    // A refused value can be stored again, as its user does after a removal.
    await slots.store.remove(NAMES);
    expect((await put(slots.store, NAMES)).every((outcome) => outcome === Outcome.done)).toBe(true);
    expect(await whole(slots.store, NAMES)).toBe(60);
    slots.close();
    slots = openSlots(path);
    expect(await whole(slots.store, NAMES)).toBe(60);
    slots.close();
  });

  it.each(Object.entries(DAMAGES))('that %s while it is open costs hits', async (_name, damage) => {
    const path = newPath();
    let slots = openSlots(path);
    await put(slots.store, NAMES);
    damage(path);
    await whole(slots.store, NAMES);
    await put(slots.store, namesOf('b', 60));
    expect(await whole(slots.store, namesOf('b', 60))).toBe(60);
    slots.close();
    slots = openSlots(path);
    await whole(slots.store, [...NAMES, ...namesOf('b', 60)]);
    slots.close();
  });

  it('that was restored from an older copy has what it had then', async () => {
    const path = newPath();
    let slots = openSlots(path);
    await put(slots.store, NAMES);
    slots.close();
    copyFileSync(path, `${path}.copy`);
    slots = openSlots(path);
    await put(slots.store, namesOf('b', 2000));
    copyFileSync(`${path}.copy`, path);
    await whole(slots.store, [...NAMES, ...namesOf('b', 2000)]);
    slots.close();
    copyFileSync(`${path}.copy`, path);
    slots = openSlots(path);
    expect(await whole(slots.store, NAMES)).toBe(60);
    expect(await whole(slots.store, namesOf('b', 2000))).toBe(0);
    slots.close();
  });

  it('is what it says; whatever else lies there is refused, and left as it is', () => {
    const lmdb = Buffer.alloc(8192);
    lmdb.writeUInt32LE(0xbeefc0de, 16);
    for (const [bytes, message] of [
      [Buffer.from('This is no database.'.repeat(1000)), /it is not a slot file of blockstep/],
      [lmdb, /it is a database of LMDB/],
    ] as const) {
      const path = newPath();
      writeFileSync(path, bytes);
      expect(() => SlotFile.open(path)).toThrow(message);
      expect(() => serve({ store: { path } })).toThrow(/ERR_BLOCKSTEP_BAD_FILE|cannot be used/);
      expect(readFileSync(path).equals(bytes)).toBe(true);
      // Where nobody else puts files it is overwritten.
      SlotFile.open(path, { isOwn: true }).release();
      SlotFile.open(path).release();
    }
  });

  it('that cannot be made or read is refused at the start', () => {
    const folder = temporaryFolder();
    expect(() => SlotFile.open(folder)).toThrow(/cannot be used: .*EISDIR/);
    writeFileSync(join(folder, 'file'), '');
    expect(() => SlotFile.open(join(folder, 'file', 'kv.slots'))).toThrow(
      /cannot be used: .*(ENOTDIR|EEXIST)/,
    );
    expect(() => serve({ store: { path: folder } })).toThrow(/ERR_BLOCKSTEP_BAD_FILE|cannot be used/);
  });

  it('keeps a seed and an epoch, and is emptied where it is of something else', async () => {
    const path = newPath();
    const isOwn = true;
    let slots = openSlots(path, 2 ** 24, { names: 'a', isOwn });
    const { seed, epoch } = slots.file;
    expect([slots.file.isNew, seed.length, statSync(path).mode & 0o777]).toEqual([true, 16, 0o600]);
    await put(slots.store, NAMES);
    slots.close();
    slots = openSlots(path, 2 ** 24, { names: 'a', isOwn });
    expect([slots.file.isNew, slots.file.seed, slots.file.epoch]).toEqual([false, seed, epoch]);
    expect(await whole(slots.store, NAMES)).toBe(60);
    slots.file.renew();
    const later = slots.file.epoch;
    expect(later).not.toBe(epoch);
    slots.close();
    slots = openSlots(path, 2 ** 24, { names: 'a', isOwn });
    expect([slots.file.isNew, slots.file.epoch]).toEqual([false, later]);
    slots.close();
    slots = openSlots(path, 2 ** 24, { names: 'b', isOwn });
    expect([slots.file.isNew, slots.file.seed]).toEqual([true, seed]);
    expect(await whole(slots.store, NAMES)).toBe(0);
    slots.close();
    // An identity in JSON of another kind does not count.
    const fd = openSync(path, 'r+');
    writeIdentity(fd, 7 as never);
    closeSync(fd);
    slots = openSlots(path, 2 ** 24, { names: 'b', isOwn });
    expect([slots.file.isNew, slots.file.seed.length]).toEqual([true, 16]);
    slots.close();
  });

  it('belongs to one process, until that ends, however it ends', async () => {
    const path = newPath();
    const first = writer(path, 2 ** 21, 'a');
    await until(
      () => first.rounds > 0,
      () => first.errors,
    );
    const second = writer(path, 2 ** 21, 'b');
    await second.over;
    expect(second.errors).toMatch(/cannot be used: .*another engine has it open/);
    expect(() => SlotFile.open(path)).toThrow(/another engine has it open/);
    expect(() => serve({ store: { path } })).toThrow(/another engine has it open/);
    first.child.kill('SIGKILL');
    await first.over;
    SlotFile.open(path).release();
  });

  it.skipIf(process.platform !== 'linux')('is refused where the file system has no locks', async () => {
    const folder = temporaryFolder();
    const library = join(folder, 'no-locks.so');
    const input = '#include <errno.h>\nextern "C" int flock(int, int) { errno = ENOLCK; return -1; }\n';
    execFileSync('c++', ['-shared', '-fPIC', '-xc++', '-', '-o', library], { input });
    const path = join(folder, 'kv.slots');
    const one = writer(path, 2 ** 21, 'a', { LD_PRELOAD: library });
    let isOver = false;
    void one.over.then(() => (isOver = true));
    await until(
      () => isOver || one.rounds > 0,
      () => `the end of a writer: ${one.errors}`,
    );
    expect(one.rounds).toBe(0);
    expect(one.errors).toMatch(/cannot be used: .*it cannot be locked: No locks available/);
    expect(statSync(path).size).toBe(0);
    SlotFile.open(path).release();
  });

  it('is shared within a process, but not where it belongs to one alone', () => {
    const path = newPath();
    const file = SlotFile.open(path);
    expect(SlotFile.open(path)).toBe(file);
    file.release();
    expect(() => SlotFile.open(path, { isOwn: true })).toThrow(/another engine has it open/);
    file.release();
    SlotFile.open(path, { isOwn: true }).release();
  });

  it('survives that its writers are killed, in the middle of what they write', async () => {
    const path = newPath();
    const random = new Random(1);
    const kills = Number(process.env['BLOCKSTEP_STORE_KILLS'] ?? share(2, 3, 6));
    for (let kill = 0; kill < kills; kill++) {
      const one = writer(path, 2 ** 21, kill % 2 === 0 ? 'a' : 'b');
      await until(
        () => one.rounds > 3,
        () => `rounds of a writer: ${one.rounds} ${one.errors};`,
      );
      await pause(random.below(10));
      one.child.kill('SIGKILL');
      await one.over;
      const slots = openSlots(path, 2 ** 21);
      const names = [...namesOf('a', 100), ...namesOf('b', 100)];
      const there = (await slots.store.has(names)).filter((outcome) => outcome === Outcome.done).length;
      // The values that a directory names are there, except the few that were being written.
      expect(await whole(slots.store, names)).toBeGreaterThanOrEqual(there - 8);
      expect(there).toBeGreaterThan(10);
      slots.close();
    }
  }, 3_600_000);
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

describe.skipIf(!mayMount)('a disk', () => {
  it('that can only be read is refused at the start', () => {
    const folder = temporaryFolder();
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'ro', 'none', folder]);
    onTestFinished(() => {
      execFileSync('umount', ['-l', folder]);
    });
    expect(() => SlotFile.open(join(folder, 'kv.slots'))).toThrow(/cannot be used: .*EROFS/);
  });

  it('that was full and has room again is used again', async () => {
    const folder = temporaryFolder();
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=400k', 'none', folder]);
    onTestFinished(() => {
      execFileSync('umount', ['-l', folder]);
    });
    const slots = openSlots(join(folder, 'kv.slots'), 2 ** 24);
    onTestFinished(() => slots.close());
    expect(await put(slots.store, NAMES)).toContain(Outcome.full);
    // Values that have a slot can be replaced.
    const later = await put(slots.store, namesOf('b', 60));
    expect(later.filter((outcome) => outcome === Outcome.done).length).toBeGreaterThan(0);
    execFileSync('mount', ['-o', 'remount,size=64m', folder]);
    for (let round = 0; round < 40; round++) await put(slots.store, namesOf(`c${round}-`, 60));
    expect(await whole(slots.store, namesOf('c39-', 60))).toBe(60);
  });

  it('that is full costs hits, and no request', async () => {
    const folder = temporaryFolder();
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=84k', 'none', folder]);
    onTestFinished(() => {
      execFileSync('umount', ['-l', folder]);
    });
    const served = serve({ store: { path: join(folder, 'kv.slots'), maxBytes: 2 ** 24 }, pipelineDepth: 2 });
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
}
