// The disk tier: restarts, resets, budgets, bounds.
import { createHash } from 'node:crypto';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { readIdentity, writeIdentity } from '../../../src/connectors/store/slots/head.js';
import { SlotFile } from '../../../src/connectors/store/slots/slot-file.js';
import { BLOCK_HASH } from '../../../src/core/native/block-hash.js';
import { unpagedText, wordy } from '../../executors/reference/support.js';
import { share } from '../../support/share.js';
import { liveOverDisk } from './disk-life.js';
import { OffloadBench, SEED } from './support.js';
import { Hold } from './tiers/hold.js';

const root = mkdtempSync(join(tmpdir(), 'blockstep-offload-'));
let count = 0;
const directory = (): string => join(root, String(count++));

afterAll(() => rmSync(root, { recursive: true, force: true }));

/** No test waits for so long; the disk of a busy machine may. */
const budgetMs = 1e6;
const PROMPT = wordy(30, 1);
const TEXT = unpagedText(PROMPT, 6, { seed: SEED });
/** Blocks that a request with this prompt can load: the last token is always computed. */
const BLOCKS = Math.floor((PROMPT.length - 1) / 4);

function withDisk(path: string, disk = {}, more = {}, numRanks = 1, hold?: Hold): OffloadBench {
  return new OffloadBench({
    numRanks,
    ...(hold && { wrapWorker: hold.wrapWorker }),
    offload: { hostBlocks: 12, disk: { path, model: 'm', budgetMs, ...disk }, ...more },
  });
}

async function ask(bench: OffloadBench) {
  const { tokens } = await bench.serve({ prompt: PROMPT, maxTokens: 6 });
  expect([...tokens]).toEqual(TEXT);
  await bench.restDisk();
  expect(bench.executor.faults).toEqual([]);
  expect(bench.leftovers()).toEqual([]);
}

/** Computes the prompt, and requests it again: then it is written to disk. */
async function askTwice(bench: OffloadBench): Promise<void> {
  await ask(bench);
  await ask(bench);
}

/** Pushes everything out of the host tier. */
async function flood(bench: OffloadBench): Promise<void> {
  for (let i = 0; i < 4; i++) {
    await bench.serve({ prompt: wordy(40, 100 + i), maxTokens: 2 });
    await bench.restDisk();
  }
  bench.engine.resetPrefixCache();
}

/** Makes the disk of rank 0 look as one of an engine whose hashes are of another function. */
function renameHash(path: string): void {
  const fd = openSync(join(path, 'rank-0', 'blocks.slots'), 'r+');
  const found = readIdentity(fd);
  if (typeof found === 'string') throw new Error(found);
  const { bytesPerBlock } = withDisk(directory()).executor.ranks[0].kv;
  const named = (hash: string): string =>
    createHash('sha256')
      .update(JSON.stringify([1, hash, 'm', bytesPerBlock, 0]))
      .digest('hex');
  expect(found.identity.names).toBe(named(BLOCK_HASH));
  writeIdentity(fd, { ...found.identity, names: named(BLOCK_HASH.replace(/\d-\d/, '2-4')) });
  closeSync(fd);
}

describe('the disk tier of an offload', () => {
  it.each(share([2], [1, 2]))(
    'brings back what was evicted from the host tier, with %i ranks',
    async (numRanks) => {
      using bench = withDisk(directory(), {}, {}, numRanks);
      await askTwice(bench);
      await flood(bench);
      const before = bench.connector.stats();
      expect(before.host.evictions).toBeGreaterThan(0);
      await ask(bench);
      const { host, disk } = bench.connector.stats();
      expect(host.hitTokens - before.host.hitTokens).toBeGreaterThan(0);
      expect(disk?.readBlocks).toBeGreaterThan(0);
      expect((host.hitTokens - before.host.hitTokens) / 4).toBe(disk?.readBlocks);
    },
  );

  it('survives a restart of the engine, and writes nothing twice', async () => {
    const path = directory();
    const first = withDisk(path, {}, { hostBlocks: 100 });
    await askTwice(first);
    const written = first.connector.stats().disk?.writtenBlocks ?? 0;
    expect(written).toBeGreaterThanOrEqual(BLOCKS);
    await first.close();
    const file = join(path, 'rank-0', 'blocks.slots');
    const before = readFileSync(file);
    const second = withDisk(path, {}, { hostBlocks: 100 });
    await ask(second);
    expect(second.connector.stats().host.hitTokens).toBe(4 * BLOCKS);
    expect(second.connector.stats().disk).toMatchObject({
      lookups: 1,
      hits: 1,
      readBlocks: BLOCKS,
    });
    // The rest of the last block is computed again, although it was there.
    expect(readFileSync(file).equals(before)).toBe(true);
    await second.close();
  });

  it('is given once what several ask for while it is being written', async () => {
    const hold = new Hold();
    using bench = withDisk(directory(), {}, { hostBlocks: 100 }, 1, hold);
    hold.on = false;
    await ask(bench);
    hold.on = true;
    for (let i = 0; i < 3; i++) await bench.serve({ prompt: PROMPT, maxTokens: 1 });
    expect(bench.connector.stats().disk).toMatchObject({ inFlight: 1 });
    expect(bench.connector.stats().host.places.used).toBe(BLOCKS);
    hold.on = false;
    await bench.restDisk();
    expect(bench.connector.stats().disk).toMatchObject({ writtenBlocks: BLOCKS });
    expect(bench.leftovers()).toEqual([]);
  });

  it('gets what was asked for again, be it in the host tier or gone from there', async () => {
    using bench = withDisk(directory(), {}, { hostBlocks: 24 });
    const written = (): number => bench.connector.stats().disk?.writtenBlocks ?? 0;
    await ask(bench);
    expect(written()).toBe(0);
    await ask(bench);
    expect(written()).toBe(BLOCKS);
    const other = wordy(30, 2);
    const serve = async (): Promise<void> => {
      await bench.serve({ prompt: other, maxTokens: 1 });
      await bench.restDisk();
    };
    await serve();
    await flood(bench);
    expect(written()).toBe(BLOCKS);
    await serve();
    expect(written()).toBe(2 * BLOCKS);
    expect(bench.leftovers()).toEqual([]);
  });

  it.each([
    ['another model', { model: 'n' }],
    ['a reset', {}],
    ['another function of hashes', {}],
  ])('finds nothing of an earlier engine after %s', async (why, other) => {
    const path = directory();
    const first = withDisk(path, {}, { hostBlocks: 100 });
    await askTwice(first);
    if (why === 'a reset') {
      expect(first.engine.resetPrefixCache({ resetConnector: true })).toMatchObject({ ok: true });
      await askTwice(first);
      expect(first.connector.stats().disk).toMatchObject({ lookups: 2, hits: 0 });
      expect(first.engine.resetPrefixCache({ resetConnector: true })).toMatchObject({ ok: true });
    }
    // The engine is disposed at once: the workers have to hear of the reset all the same.
    await first.close();
    if (why === 'another function of hashes') renameHash(path);
    const second = withDisk(path, other, { hostBlocks: 100 });
    await ask(second);
    expect(second.connector.stats().disk).toMatchObject({ hits: 0, readBlocks: 0 });
    await second.close();
  });

  it('lets a request go on whose time is over, and keeps what comes later', async () => {
    const path = directory();
    const first = withDisk(path, {}, { hostBlocks: 100 });
    await askTwice(first);
    await first.close();
    let now = 0;
    const hold = new Hold();
    using bench = withDisk(path, { budgetMs: 50 }, { hostBlocks: 100, now: () => now }, 1, hold);
    const stream = bench.submit({ prompt: PROMPT, maxTokens: 6 });
    bench.engine.step();
    expect(bench.connector.stats().disk).toMatchObject({ waiting: 1, inFlight: 1 });
    now = 49;
    for (let i = 0; i < 5; i++) bench.engine.step();
    expect(bench.engine.numRunning).toBe(0);
    now = 50;
    for (let i = 0; i < 3; i++) bench.engine.step();
    expect(bench.engine.numRunning).toBe(1);
    hold.on = false;
    await bench.finish();
    expect([...(await stream.result()).tokens]).toEqual(TEXT);
    await bench.restDisk();
    expect(bench.connector.stats().host.hits).toBe(0);
    expect(bench.leftovers()).toEqual([]);
  });

  it('reads a block for one request at a time', async () => {
    const path = directory();
    const first = withDisk(path, {}, { hostBlocks: 100 });
    await askTwice(first);
    await first.close();
    const hold = new Hold();
    using bench = withDisk(path, {}, { hostBlocks: 100 }, 1, hold);
    const streams = [0, 1, 2].map(() => bench.submit({ prompt: PROMPT, maxTokens: 6 }));
    bench.engine.step();
    expect(bench.connector.stats().disk).toMatchObject({ waiting: 3, inFlight: 1, lookups: 1 });
    hold.on = false;
    await bench.finish();
    for (const stream of streams) expect([...(await stream.result()).tokens]).toEqual(TEXT);
    await bench.restDisk();
    expect(bench.connector.stats().disk).toMatchObject({ lookups: 1, readBlocks: BLOCKS });
    expect(bench.connector.stats().host.hits).toBe(1);
    expect(bench.leftovers()).toEqual([]);
  });

  it.each(['finds', 'reads', 'writes'])(
    'takes late reports of %s from before a reset for nothing',
    async (kind) => {
      const path = directory();
      if (kind !== 'writes') {
        const first = withDisk(path, {}, { hostBlocks: 100 });
        await askTwice(first);
        await first.close();
      }
      const hold = new Hold();
      // Only what is to come late is held back.
      hold.on = kind === 'finds';
      const isWrite = kind === 'writes';
      using bench = withDisk(path, {}, { hostBlocks: 100 }, 1, hold);
      const maxTokens = isWrite ? 1 : 6;
      if (isWrite) {
        await bench.serve({ prompt: PROMPT, maxTokens });
        hold.on = true;
      }
      const stream = bench.submit({ prompt: PROMPT, maxTokens });
      bench.engine.step();
      if (kind === 'reads') {
        // Up to the find's answer; the read is then on its way.
        while (bench.connector.stats().host.places.filling === 0) {
          await new Promise((resolve) => setTimeout(resolve, 1));
          bench.engine.step();
        }
        hold.on = true;
        bench.engine.step();
      }
      if (isWrite) await bench.finish();
      const inFlight = bench.connector.stats().disk?.inFlight;
      expect(inFlight).toBeGreaterThan(0);
      expect(bench.engine.resetPrefixCache({ resetConnector: true })).toMatchObject({ ok: true });
      expect(bench.connector.stats().host.blocks).toBe(0);
      // Places come back only when nothing touches them any more.
      const { free, capacityBlocks } = {
        ...bench.connector.stats().host,
        ...bench.connector.stats().host.places,
      };
      if (kind !== 'finds') expect(free).toBeLessThan(capacityBlocks);
      hold.on = false;
      await bench.finish();
      await bench.restDisk();
      expect([...(await stream.result()).tokens]).toEqual(TEXT.slice(0, maxTokens));
      expect(bench.connector.stats().anomalies).toEqual({ 'after-reset': inFlight });
      expect(bench.connector.stats().disk).toMatchObject({ hits: 0, readBlocks: 0 });
      expect(bench.connector.stats().host.hits).toBe(0);
      expect(bench.leftovers()).toEqual([]);
    },
  );

  it('is bounded: what is older goes', async () => {
    using bench = withDisk(directory(), { maxBytes: 2 ** 20 }, { hostBlocks: 100 });
    // A block takes a page of 4 KiB on disk, so 256 blocks fit.
    for (let i = 0; i < 80; i++) {
      await bench.serve({ prompt: wordy(40, 200 + (i >> 1)), maxTokens: 2 });
      await bench.restDisk();
    }
    const [{ disk: store }] = bench.workers.map((worker) => worker.stats());
    expect(store?.stored).toBeGreaterThan(300);
    bench.engine.resetPrefixCache();
    const before = bench.connector.stats().disk;
    await bench.serve({ prompt: wordy(40, 200), maxTokens: 2 });
    await bench.restDisk();
    expect(bench.connector.stats().disk).toMatchObject({ readBlocks: before?.readBlocks });
    expect(bench.leftovers()).toEqual([]);
  });

  it('costs hits and no request where its epoch cannot be kept', async () => {
    const path = directory();
    const first = withDisk(path, {}, { hostBlocks: 100 });
    await askTwice(first);
    const renew = vi.spyOn(SlotFile.prototype, 'renew').mockImplementation(() => {
      throw new Error('no room');
    });
    onTestFinished(() => renew.mockRestore());
    const reset = { resetConnector: true };
    expect(first.engine.resetPrefixCache(reset)).toMatchObject({ ok: true });
    await askTwice(first);
    expect(first.workers[0].stats().disk?.lastError).toContain('the disk tier is off');
    expect(first.engine.resetPrefixCache()).toMatchObject({ ok: true });
    await askTwice(first);
    expect(first.connector.stats().disk).toMatchObject({ hits: 0 });
    // With the next epoch that can be kept it is on again.
    renew.mockRestore();
    expect(first.engine.resetPrefixCache(reset)).toMatchObject({ ok: true });
    await askTwice(first);
    await first.close();
    const second = withDisk(path, {}, { hostBlocks: 100 });
    await ask(second);
    expect(second.connector.stats().disk).toMatchObject({ hits: 1 });
    await second.close();
  });

  it('finds nothing that an engine with another number of ranks has stored', async () => {
    const path = directory();
    const first = withDisk(path, {}, { hostBlocks: 100 }, 2);
    await askTwice(first);
    await first.close();
    const second = withDisk(path, {}, { hostBlocks: 100 }, 1);
    await ask(second);
    expect(second.connector.stats().disk).toMatchObject({ hits: 0, readBlocks: 0 });
    await second.close();
    const third = withDisk(path, {}, { hostBlocks: 100 }, 2);
    await ask(third);
    expect(third.connector.stats().disk).toMatchObject({ hits: 1, readBlocks: BLOCKS });
    await third.close();
  });

  it('keeps a hash seed for engines that are given none, and not for those that are', async () => {
    const path = directory();
    const engine = { hashSeed: undefined } as never;
    const at = (more: object) =>
      new OffloadBench({ offload: { hostBlocks: 100, disk: { path, model: 'm', budgetMs } }, ...more });
    const first = at({ engine });
    await askTwice(first);
    const { hashSeed } = first.engine.scheduler.config;
    await first.close();
    const second = at({ engine });
    expect(second.engine.scheduler.config.hashSeed).toEqual(hashSeed);
    await ask(second);
    expect(second.connector.stats().disk).toMatchObject({ hits: 1, readBlocks: BLOCKS });
    await second.close();
    const third = at({});
    expect(third.engine.scheduler.config.hashSeed).not.toEqual(hashSeed);
    await ask(third);
    expect(third.connector.stats().disk).toMatchObject({ hits: 0 });
    await third.close();
  });

  it('belongs to one engine, and leaves alone what an earlier version has left', async () => {
    const path = directory();
    const first = withDisk(path);
    expect(() => withDisk(path)).toThrow(/another engine has it open/);
    await first.close();
    await withDisk(path).close();
    const old = join(path, 'rank-0', 'blocks.mdb');
    writeFileSync(old, 'a database');
    expect(() => withDisk(path)).toThrow(/disk.path has a database of LMDB/);
    expect(readFileSync(old, 'utf8')).toBe('a database');
  });

  it('is refused where it cannot be', () => {
    expect(() => withDisk('')).toThrow(/disk.path/);
    expect(() => withDisk(directory(), { model: '' })).toThrow(/disk.model/);
    expect(() => withDisk(directory(), { maxByte: 1 })).toThrow(/did you mean maxBytes/);
    expect(() => withDisk(directory(), { budgetMs: -1 })).toThrow(/disk.budgetMs/);
    const file = join(root, 'file');
    writeFileSync(file, '');
    expect(() => withDisk(file)).toThrow();
  });

  const depths = share<readonly (1 | 2 | 3)[]>([2], [1, 2, 3]);
  it.each(depths)('gives the texts of an unlimited pool at depth %i', async (pipelineDepth) => {
    for (let seed = 1; seed <= share(1, 1, 2); seed++)
      await liveOverDisk(directory(), seed, { pipelineDepth });
  });
});
