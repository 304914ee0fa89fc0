import { StoreConnector, type StoreOptions, StoreWorker } from '../../src/connectors/store/index.js';
import { BlockArena } from '../../src/transfer/block-arena.js';
import { makeEngine } from '../engine/engine-workloads.js';
import { measure } from '../rows/measure.js';
import type { Latency } from '../rows/row.js';

const SIZE = 256;
const BYTES_PER_BLOCK = 4096;
const EFFORT = { samples: 500, warmup: 300 };
const ROUNDS = 3;
/** Steps that the first requests may be ahead of the last one. */
const AHEAD = 3000;

/** A step of 256 decodes without a connector, with a store that has nothing to do, and with one that stores all the time. */
export function decodeSteps(path: string): { none: Latency; idle: Latency; atWork: Latency; stored: number } {
  const none: Latency[] = [];
  const idle: Latency[] = [];
  const atWork: Latency[] = [];
  let stored = 0;
  for (let round = 0; round < ROUNDS; round++) {
    none.push(step(null).latency);
    // Nobody listens there: what is computed goes nowhere, and is looked at all the same.
    idle.push(step({ url: 'redis://127.0.0.1:1' }).latency);
    const worked = step({ path: `${path}-${round}` });
    atWork.push(worked.latency);
    stored += worked.stored;
  }
  return { none: best(none), idle: best(idle), atWork: best(atWork), stored };
}

function step(store: StoreOptions | null): { latency: Latency; stored: number } {
  const numSteps = EFFORT.samples + EFFORT.warmup + AHEAD;
  let worker: StoreWorker | null = null;
  const { engine, submit } = makeEngine(SIZE, numSteps, false, (numBlocks) => {
    if (store === null) return {};
    const format = { model: 'bench', layout: 'none', dtype: 'none', bytesPerBlock: BYTES_PER_BLOCK };
    const connector = new StoreConnector({ store, format, maxPauseMs: 60_000, pauseMs: 60_000 });
    const kv = BlockArena.allocate({ numBlocks, bytesPerBlock: BYTES_PER_BLOCK });
    worker = new StoreWorker({ memory: { kv }, store, pauseMs: 60_000, maxPauseMs: 60_000 });
    return { connector, workers: [worker] };
  });
  for (let i = 0; i < SIZE; i++) submit(numSteps);
  // Until every request runs: a lookup sets it apart for a while.
  for (let i = 0; engine.numRunning < SIZE; i++) {
    if (i >= AHEAD) throw new Error(`only ${engine.numRunning} run`);
    engine.step();
    sleep(1);
  }
  // A step of a real model takes milliseconds, in which the store's thread works.
  const before = (): void => sleep(1);
  const latency = measure({ run: () => void engine.step(), before }, EFFORT);
  if (engine.numRunning !== SIZE) throw new Error('decode with a store is not what it says');
  const stored = (worker as StoreWorker | null)?.stats().store.stored ?? 0;
  engine.dispose();
  return { latency, stored };
}

function best(latencies: readonly Latency[]): Latency {
  return latencies.reduce((a, b) => (b.p50 < a.p50 ? b : a));
}

function sleep(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}
