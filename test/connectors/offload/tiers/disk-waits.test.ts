// Waits for the disk, and their length; the known keys of the disk.
import { mkdtempSync, rmSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { Anomalies } from '../../../../src/base/anomalies.js';
import { DiskJobs } from '../../../../src/connectors/offload/tiers/disk-jobs.js';
import { Pace } from '../../../../src/connectors/offload/tiers/pace.js';
import type { KvGroupOptions } from '../../../../src/index.js';
import { wordy } from '../../../executors/reference/support.js';
import { OffloadBench } from '../support.js';
import { Hold } from './hold.js';

/**
 * The requests that wait for the disk tier, and the lengths of their waits. All times are virtual:
 * the disk answers when the test lets it.
 */

const root = mkdtempSync(join(tmpdir(), 'blockstep-offload-waits-'));
let count = 0;

afterAll(() => rmSync(root, { recursive: true, force: true }));

/** Nobody waits for so long. */
const budgetMs = 1e6;
const PROMPT = wordy(30, 1);
const GROUPS: KvGroupOptions[] = [{ type: 'full' }, { type: 'sliding', window: 6 }];

/** A bench over an empty disk that has heard how its disk began. */
async function empty(hold: Hold, kvGroups?: KvGroupOptions[], disk = {}): Promise<OffloadBench> {
  const bench = new OffloadBench({
    engine: { numBlocks: 200, ...(kvGroups && { kvGroups }) },
    wrapWorker: hold.wrapWorker,
    offload: { hostBlocks: 24, disk: { path: join(root, String(count++)), model: 'm', budgetMs, ...disk } },
  });
  hold.on = false;
  await serve(bench, wordy(3, 50));
  return bench;
}

/** Serves a prompt; each step takes a millisecond. */
async function serve(bench: OffloadBench, prompt: Int32Array): Promise<void> {
  const stream = bench.submit({ prompt, maxTokens: 1 });
  for (let i = 0; bench.engine.hasWork(); i++) {
    if (i > 10_000) throw new Error('it does not end');
    bench.engine.step();
    bench.time++;
    await bench.compute();
    bench.copyAll();
    // Another process answers for the disk, in its own time.
    if ((bench.connector.stats().disk?.inFlight ?? 0) > 0) await new Promise((r) => setTimeout(r, 1));
  }
  await stream.result();
  await bench.restDisk();
}

/** Puts a prompt on disk, but neither into the pool nor on the host. */
async function onDisk(bench: OffloadBench, prompt = PROMPT): Promise<void> {
  // Blocks are written to disk when a request asks for them a second time.
  for (let i = 0; i < 2; i++) await serve(bench, prompt);
  for (let i = 0; i < 6; i++) await serve(bench, wordy(40, 100 + i));
  bench.engine.resetPrefixCache();
}

/** Submits a prompt, and makes one round. @returns requests that run then */
function begin(bench: OffloadBench, prompt = PROMPT): number {
  bench
    .submit({ prompt, maxTokens: 1 })
    .result()
    .catch(() => {});
  bench.engine.step();
  return bench.engine.numRunning;
}

describe('who waits for the disk tier', () => {
  it.each([
    ['one group', undefined],
    ['several groups', GROUPS],
  ])('nobody whose prompt is not there: %s', async (_, groups) => {
    const hold = new Hold();
    using bench = await empty(hold, groups);
    hold.on = true;
    expect(begin(bench)).toBe(1);
    expect(bench.connector.stats().disk).toMatchObject({ lookups: 1, waiting: 0, inFlight: 0 });
    hold.on = false;
    await bench.finish();
    await bench.restDisk();
    expect(bench.leftovers()).toEqual([]);
  });

  it.each([
    ['one group', undefined],
    ['several groups', GROUPS],
  ])('whoever has something there waits for one trip: %s', async (_, groups) => {
    const hold = new Hold();
    using bench = await empty(hold, groups);
    await onDisk(bench);
    bench.time += 1;
    hold.on = true;
    expect(begin(bench)).toBe(0);
    // The blocks are read without a lookup on the disk.
    expect(bench.connector.stats().host.places.filling).toBeGreaterThan(0);
    hold.on = false;
    await bench.finish();
    await bench.restDisk();
    expect(bench.connector.stats().disk).toMatchObject({ hits: 1, late: 0, passed: 0 });
    expect(bench.connector.stats().host.hits).toBe(1);
    expect(bench.leftovers()).toEqual([]);
  });

  it('nobody for longer than computing takes', async () => {
    const hold = new Hold();
    using bench = await empty(hold);
    await onDisk(bench);
    hold.on = true;
    expect(begin(bench)).toBe(0);
    // A step of a millisecond computes some 20 tokens or more.
    bench.time += 0.1;
    bench.engine.step();
    expect(bench.engine.numRunning).toBe(0);
    bench.time += 3;
    for (let i = 0; i < 3; i++) bench.engine.step();
    expect(bench.engine.numRunning).toBe(1);
    hold.on = false;
    await bench.finish();
    await bench.restDisk();
    expect(bench.connector.stats().disk).toMatchObject({ late: 1 });
    expect(bench.leftovers()).toEqual([]);
  });

  it('nobody while it is slower than computing, and it is tried again', async () => {
    const hold = new Hold();
    using bench = await empty(hold);
    await onDisk(bench);
    const again = async (waits: boolean): Promise<void> => {
      hold.on = true;
      const passed = bench.connector.stats().disk?.passed ?? 0;
      expect(begin(bench)).toBe(waits ? 0 : 1);
      expect(bench.connector.stats().disk).toMatchObject({ passed: passed + (waits ? 0 : 1) });
      bench.time += waits ? 100 : 0;
      hold.on = false;
      await bench.finish();
      await bench.restDisk();
      for (let i = 0; i < 6; i++) await serve(bench, wordy(40, 100 + i));
      bench.engine.resetPrefixCache();
    };
    await again(true);
    await again(false);
    expect(bench.connector.stats().disk).toMatchObject({ late: 1 });
    // While nobody reads, little is written.
    const { skippedBlocks } = bench.connector.stats().disk ?? { skippedBlocks: 0 };
    for (let i = 0; i < 2; i++) await serve(bench, wordy(40, 300));
    expect(bench.connector.stats().disk?.skippedBlocks).toBeGreaterThan(skippedBlocks);
    bench.time += 2000;
    await again(true);
    expect(bench.leftovers()).toEqual([]);
  });

  it.each([-1e9, 1e9])('nobody for ever, though the clock jumps by %i ms', async (jump) => {
    const hold = new Hold();
    using bench = await empty(hold);
    await onDisk(bench);
    hold.on = true;
    expect(begin(bench)).toBe(0);
    bench.time += jump;
    bench.engine.step();
    hold.on = false;
    await bench.finish();
    await bench.restDisk();
    expect(bench.executor.faults).toEqual([]);
    expect(bench.leftovers()).toEqual([]);
    // The disk is used as before.
    await onDisk(bench);
    const hits = bench.connector.stats().disk?.hits ?? 0;
    await serve(bench, PROMPT);
    expect(bench.connector.stats().disk).toMatchObject({ hits: hits + 1, waiting: 0, inFlight: 0 });
    expect(bench.leftovers()).toEqual([]);
  });

  it('whoever wants what the disk has dropped learns it by one read', async () => {
    const hold = new Hold();
    const path = join(root, String(count++));
    using bench = await empty(hold, undefined, { path });
    // The time stands still, so that the disk is asked for all and given all.
    const still = async (prompt: Int32Array): Promise<void> => {
      await bench.serve({ prompt, maxTokens: 1 });
      await bench.restDisk();
    };
    for (let i = 0; i < 2; i++) await still(PROMPT);
    for (let i = 0; i < 8; i++) await still(wordy(40, 200 + i));
    // Somebody else cuts the file.
    truncateSync(join(path, 'rank-0', 'blocks.slots'), 2 ** 14);
    bench.engine.resetPrefixCache();
    const hits = bench.connector.stats().disk?.hits ?? 0;
    await still(PROMPT);
    expect(bench.workers[0].stats().disk?.misses).toBeGreaterThan(0);
    expect(bench.connector.stats().disk).toMatchObject({ hits });
    // The prompt was written again, since its blocks are known to be missing.
    for (let i = 0; i < 8; i++) await still(wordy(40, 300 + i));
    bench.engine.resetPrefixCache();
    const others = bench.connector.stats().disk?.hits ?? 0;
    await still(PROMPT);
    expect(bench.connector.stats().disk).toMatchObject({ hits: others + 1 });
    expect(bench.leftovers()).toEqual([]);
  });
});

describe('what is kept on disk', () => {
  it.each([
    ['one group', undefined],
    ['several groups', GROUPS],
  ])('is not read for the last token, which is computed to sample from: %s', async (_, groups) => {
    using bench = await empty(new Hold(), groups);
    const prompt = wordy(32, 1);
    await onDisk(bench, prompt);
    bench.time += 1;
    const before = bench.connector.stats().host.hitTokens;
    await bench.serve({ prompt, maxTokens: 1 });
    await bench.restDisk();
    expect(bench.connector.stats().disk).toMatchObject({ hits: 1 });
    expect(bench.connector.stats().host.hitTokens - before).toBe(28);
    expect(bench.leftovers()).toEqual([]);
  });

  it('is forgotten at a reset: nobody waits for it, and it is written again', async () => {
    const hold = new Hold();
    using bench = await empty(hold);
    const twice = async (): Promise<void> => {
      for (let i = 0; i < 2; i++) await bench.serve({ prompt: PROMPT, maxTokens: 1 });
      await bench.restDisk();
    };
    await twice();
    expect(bench.connector.stats().disk).toMatchObject({ writtenBlocks: 7 });
    expect(bench.engine.resetPrefixCache({ resetConnector: true })).toMatchObject({ ok: true });
    hold.on = true;
    expect(begin(bench)).toBe(1);
    hold.on = false;
    await bench.finish();
    expect(bench.connector.stats().disk).toMatchObject({ writtenBlocks: 7 });
    await twice();
    expect(bench.connector.stats().disk).toMatchObject({ writtenBlocks: 14 });
    expect(bench.leftovers()).toEqual([]);
  });

  it('gives back at a reset the places that wait to be written', async () => {
    using bench = await empty(new Hold());
    // The prompt was computed before, and its blocks are nowhere now. So they are written as soon
    // as the host tier has them.
    await serve(bench, PROMPT);
    for (let i = 0; i < 6; i++) await serve(bench, wordy(40, 100 + i));
    bench.engine.resetPrefixCache();
    const stream = bench.submit({ prompt: PROMPT, maxTokens: 1 });
    while (bench.connector.stats().host.places.used === 0) {
      bench.engine.step();
      await bench.compute();
      bench.copyAll();
    }
    // No plan was made since: nobody has begun to write.
    const { places } = bench.connector.stats().host;
    expect([places.used, bench.connector.stats().disk?.inFlight]).toEqual([7, 0]);
    expect(bench.engine.resetPrefixCache({ resetConnector: true })).toMatchObject({ connector: true });
    expect(bench.connector.stats().host.places).toMatchObject({ used: 0, idle: 0, filling: 0 });
    await bench.finish();
    await stream.result();
    // As much can be written as before.
    for (let i = 0; i < 8; i++) {
      await bench.serve({ prompt: wordy(30, 60 + (i >> 1)), maxTokens: 1 });
      await bench.restDisk();
    }
    expect(bench.connector.stats().disk).toMatchObject({ skippedBlocks: 0 });
    expect(bench.leftovers()).toEqual([]);
  });

  it.each([
    [0, 1],
    [1, 0],
  ])('is good only if every rank says so: rank %i first, then rank %i', (first, second) => {
    const jobs = new DiskJobs([0, 1], new Anomalies(true));
    const keys = [1n, 2n, 3n, 4n];
    const job = jobs.begin('read', keys, new Int32Array(4), null);
    const said = [Uint8Array.of(1, 0, 1, 2), Uint8Array.of(1, 1, 0, 1)];
    expect(jobs.report(first, { job, good: said[first] })).toBeNull();
    expect(jobs.report(second, { job, good: said[second] })?.good).toEqual(Uint8Array.of(1, 0, 0, 1));
    expect(jobs.size).toBe(0);
  });
});

describe('the pace of disk and computing', () => {
  it('counts no time in which nothing runs', () => {
    let now = 0;
    const pace = new Pace(() => now);
    expect(pace.computingMs(1)).toBe(Number.POSITIVE_INFINITY);
    pace.plan(100);
    now = 10;
    pace.plan(0);
    now = 1000;
    pace.plan(100);
    now = 1010;
    pace.ended();
    now = 5000;
    pace.plan(0);
    expect(pace.computingMs(100)).toBe(10);
  });

  it.each([-1e9, 1e9])('measures nothing across a clock that jumps by %i ms', (jump) => {
    let now = 0;
    const pace = new Pace(() => now);
    const step = (): void => {
      pace.plan(100);
      now += 10;
      pace.plan(0);
    };
    step();
    pace.looked(pace.ask() - 20, 1);
    expect([pace.allows(200, true), pace.allows(199, true)]).toEqual([true, false]);
    // The clock jumps while a step runs, and while a lookup is under way.
    pace.plan(100);
    const begunAt = pace.ask();
    now += jump;
    pace.plan(0);
    pace.looked(begunAt, 1);
    for (let i = 0; i < 40; i++) {
      step();
      pace.looked(pace.ask() - 20, 1);
    }
    now += 1;
    expect(pace.computingMs(100)).toBeCloseTo(10, 0);
    expect([pace.allows(400, true), pace.allows(100, true)]).toEqual([true, false]);
    // A slow disk is tried again.
    now += 1000;
    expect(pace.allows(100, true)).toBe(true);
  });

  it('tries a slow disk again though the clock jumped back', () => {
    let now = 1e9;
    const pace = new Pace(() => now);
    pace.plan(100);
    now += 10;
    pace.plan(0);
    pace.looked(pace.ask() - 20, 1);
    now = 0;
    expect(pace.allows(100, true)).toBe(true);
    pace.looked(pace.ask() - 20, 1);
    expect(pace.allows(100, true)).toBe(false);
  });

  it('asks while the disk is faster, and now and then while it is not', () => {
    let now = 0;
    const pace = new Pace(() => now);
    pace.plan(100);
    now = 10;
    pace.plan(0);
    expect(pace.allows(100, true)).toBe(true);
    pace.looked(pace.ask() - 20, 1);
    expect([pace.allows(200, true), pace.allows(199, true)]).toEqual([true, false]);
    now += 32 * 20;
    expect(pace.allows(10, true)).toBe(true);
    // The duration of a lookup falls at once.
    pace.looked(pace.ask() - 1, 1);
    expect(pace.allows(10, true)).toBe(true);
    // A lookup that mostly brings nothing is worth less.
    for (let i = 0; i < 40; i++) pace.looked(pace.ask() - 1, 0);
    expect([pace.allows(10, true), pace.allows(10, false)]).toEqual([true, false]);
  });
});
