import { execFileSync } from 'node:child_process';
import { open } from 'lmdb';
import { StoreThread } from '../../../src/connectors/store/client/store-thread.js';
import { Outcome } from '../../../src/connectors/store/stores/block-store.js';
import type { StoreOptions } from '../../../src/connectors/store/stores/store-options.js';
import { BlockArena } from '../../../src/transfer/block-arena.js';

/** Blocks of a job, and jobs at once. */
const JOB = 4;
const JOBS = 4;
/** Blocks that a job at once has: what the other side of a comparison has on its way. */
export const PIPELINE = JOB * JOBS;
/** Different keys. */
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
  const put = rateOf(count, bytesPerBlock, await timed(() => moveAll(thread, 'put', count)));
  await moveAll(thread, 'get', KEYS);
  const get = rateOf(count, bytesPerBlock, await timed(() => moveAll(thread, 'get', count)));
  await thread.close();
  staging.dispose();
  return { put, get };
}

/** Moves blocks, `JOBS` jobs at once. */
async function moveAll(thread: StoreThread, kind: 'put' | 'get', count: number): Promise<void> {
  let begun = 0;
  let ended = 0;
  const next = (slot: number): void => {
    if (begun >= count) return;
    const places = Int32Array.from({ length: JOB }, (_, i) => slot * JOB + i);
    const keys = Array.from(places, (_, i) => `block ${(begun + i) % KEYS}`);
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

/** `redis-benchmark` with the same size of values, and as many commands on their way. */
export function redisBenchmark(port: number, bytesPerBlock: number, count: number): Throughput {
  const place = ['-p', `${port}`, '-d', `${bytesPerBlock}`, '-n', `${count}`, '-c', '1', '-P', `${PIPELINE}`];
  const said = execFileSync('redis-benchmark', [...place, '-t', 'set,get', '--csv'], { encoding: 'utf8' });
  const rate = (name: string): number => {
    const found = new RegExp(`"${name}","([0-9.]+)"`).exec(said);
    if (found === null) throw new Error(`redis-benchmark said no ${name}: ${said}`);
    return (Number(found[1]) * bytesPerBlock) / MIB;
  };
  return { put: rate('SET'), get: rate('GET') };
}

/** LMDB alone: transactions of as many values, and reads that copy each value. No checksum, no thread. */
export async function rawLmdb(path: string, bytesPerBlock: number, count: number): Promise<Throughput> {
  const root = open<Uint8Array, Uint8Array>({
    ...{ path, noSubdir: true, encoding: 'binary', keyEncoding: 'binary', mapSize: 2 ** 32 },
  });
  const value = Buffer.alloc(bytesPerBlock, 7);
  const target = Buffer.alloc(bytesPerBlock);
  const keyOf = (i: number): Buffer => Buffer.from(`block ${i % KEYS}`);
  const putAll = (most: number): void => {
    for (let at = 0; at < most; at += JOB)
      root.transactionSync(() => {
        for (let i = at; i < at + JOB; i++) root.putSync(keyOf(i), value);
      });
  };
  const getAll = (most: number): void => {
    for (let i = 0; i < most; i++) {
      const found = root.getBinaryFast(keyOf(i));
      target.set((found as Buffer).subarray(0, bytesPerBlock));
    }
  };
  putAll(KEYS);
  const put = rateOf(count, bytesPerBlock, await timed(() => putAll(count)));
  getAll(KEYS);
  const get = rateOf(count, bytesPerBlock, await timed(() => getAll(count)));
  await root.close();
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
