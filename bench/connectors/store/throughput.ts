import { execFileSync } from 'node:child_process';
import { closeSync, openSync, readSync, writeSync } from 'node:fs';
import { StoreThread } from '../../../src/connectors/store/client/store-thread.js';
import { Outcome } from '../../../src/connectors/store/stores/block-store.js';
import type { StoreOptions } from '../../../src/connectors/store/stores/store-options.js';
import { BlockArena } from '../../../src/transfer/block-arena.js';

/** Blocks of a job, and jobs at once. */
const JOB = 4;
const JOBS = 4;
/** Blocks of all jobs at once: the other side of a comparison has as many in transit. */
export const PIPELINE = JOB * JOBS;
/** Different values that are read, and that a server is given over and over. */
const KEYS = 64;

/** MiB in a second, of values that are stored and read. */
export interface Throughput {
  readonly put: number;
  readonly get: number;
}

const MIB = 2 ** 20;

/** A store by its thread, with checksums, from and to a staging arena. */
export async function throughThread(
  store: StoreOptions,
  bytesPerBlock: number,
  count: number,
): Promise<Throughput> {
  const staging = BlockArena.allocate({ numBlocks: PIPELINE, bytesPerBlock });
  for (let i = 0; i < PIPELINE; i++) staging.block(i).fill(i + 1);
  const thread = new StoreThread({ store, staging, timeoutMs: 60_000 });
  await moveAll(thread, 'put', KEYS);
  // A file does not write what it has.
  const numKeys = 'path' in store ? Number.POSITIVE_INFINITY : KEYS;
  const put = rateOf(count, bytesPerBlock, await timed(() => moveAll(thread, 'put', count, numKeys)));
  await moveAll(thread, 'put', KEYS);
  await moveAll(thread, 'get', KEYS);
  const get = rateOf(count, bytesPerBlock, await timed(() => moveAll(thread, 'get', count)));
  await thread.close();
  staging.dispose();
  return { put, get };
}

/** Moves blocks, `JOBS` jobs at once. */
async function moveAll(
  thread: StoreThread,
  kind: 'put' | 'get',
  count: number,
  numKeys = KEYS,
): Promise<void> {
  let begun = 0;
  let ended = 0;
  const next = (slot: number): void => {
    if (begun >= count) return;
    const places = Int32Array.from({ length: JOB }, (_, i) => slot * JOB + i);
    const keys = Array.from(places, (_, i) => `block-${numKeys < count ? (begun + i) % numKeys : begun + i}`);
    begun += JOB;
    const end = (outcomes: Uint8Array): void => {
      if (outcomes.some((outcome) => outcome !== Outcome.done))
        throw new Error(`${kind}: ${outcomes.join()} ${thread.stats().lastError}`);
    };
    thread[kind](keys, places, end, () => {
      ended += JOB;
      next(slot);
    });
  };
  for (let slot = 0; slot < JOBS; slot++) next(slot);
  while (ended < count) {
    await new Promise((resolve) => setTimeout(resolve, 0));
    thread.drain();
  }
}

/**
 * The best rates of `redis-benchmark` with values of the same size. It runs with as many commands at
 * once as the store, and with a single command, which is faster for large values.
 */
export function redisBenchmark(port: number, bytesPerBlock: number, count: number): Throughput {
  const [piped, single] = [PIPELINE, 1].map((size) => redisBenchmarkOnce(port, bytesPerBlock, count, size));
  return { put: Math.max(piped.put, single.put), get: Math.max(piped.get, single.get) };
}

function redisBenchmarkOnce(
  port: number,
  bytesPerBlock: number,
  count: number,
  pipeline: number,
): Throughput {
  const place = ['-p', `${port}`, '-d', `${bytesPerBlock}`, '-n', `${count}`, '-c', '1', '-P', `${pipeline}`];
  const said = execFileSync('redis-benchmark', [...place, '-t', 'set,get', '--csv'], { encoding: 'utf8' });
  const rate = (name: string): number => {
    const found = new RegExp(`"${name}","([0-9.]+)"`).exec(said);
    if (found === null) throw new Error(`redis-benchmark said no ${name}: ${said}`);
    return (Number(found[1]) * bytesPerBlock) / MIB;
  };
  return { put: rate('SET'), get: rate('GET') };
}

/** A file alone: values are written and read one after the other at places of it. No key, no checksum, no thread. */
export async function rawFile(path: string, bytesPerBlock: number, count: number): Promise<Throughput> {
  const fd = openSync(path, 'w+');
  const value = Buffer.alloc(bytesPerBlock, 7);
  const all = (most: number, act: (at: number) => number): void => {
    for (let i = 0; i < most; i++) act((i % KEYS) * bytesPerBlock);
  };
  const write = (at: number): number => writeSync(fd, value, 0, bytesPerBlock, at);
  const read = (at: number): number => readSync(fd, value, 0, bytesPerBlock, at);
  all(KEYS, write);
  const put = rateOf(count, bytesPerBlock, await timed(() => all(count, write)));
  const get = rateOf(count, bytesPerBlock, await timed(() => all(count, read)));
  closeSync(fd);
  return { put, get };
}

async function timed(act: () => unknown): Promise<number> {
  const start = performance.now();
  await act();
  return performance.now() - start;
}

function rateOf(count: number, bytesPerBlock: number, ms: number): number {
  return (count * bytesPerBlock) / MIB / (ms / 1000);
}
