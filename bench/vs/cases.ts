// The workloads of a comparison of builds, loaded once for each build.
import { Scheduler } from '../../src/index.js';
import { makeEngine } from '../engine/engine-workloads.js';
import { Mixed } from '../workloads/mixed.js';
import { BLOCKS, Pool, TOKENS } from '../workloads/pool.js';
import { BLOCK_SIZE, type DecodeVariant, HASH_SEED, makeDecode, Prompts } from '../workloads/workloads.js';

/**
 * The cases by which two builds are compared. This module is loaded once for each of them, with
 * everything that it calls: neither meets what V8 has learned from the other.
 */

/** One workload, made and warm. */
export interface Case {
  /** Takes so many samples, in microseconds for one operation each. */
  time(samples: number): number[] | Promise<number[]>;
  /** Throws if the workload was not what it says, and disposes it. */
  end(): void;
}

/** How a case is measured. */
export interface Plan {
  /** Makes the workload for so many samples in all, those of the warm-up included. */
  make(samples: number): Case;
  /** Samples before the first that counts, and those of one turn. */
  readonly warmup: number;
  readonly turn: number;
}

/** Turns of each side. */
export const TURNS = 20;

export const CASES: Readonly<Record<string, Plan>> = {
  'decode-1': decode(1, 16),
  'decode-8': decode(8, 16),
  'decode-64': decode(64, 4),
  'decode-256': decode(256, 1),
  'decode-1024': decode(1024, 1),
  'mixed-256': { make: mixed, warmup: 3000, turn: 200 },
  'transfers-256': decode(256, 1, { transfers: 64 }),
  'cold-2048': { make: () => admission(false), warmup: 1000, turn: 100 },
  'hit-2048': { make: () => admission(true), warmup: 1000, turn: 100 },
  'admit-10k': { make: () => coldAdmit(10_000), warmup: 2000, turn: 150 },
  'admit-1M': { make: () => coldAdmit(2 ** 20), warmup: 2000, turn: 150 },
  'native-hit-10k': { make: () => nativeHit(10_000), warmup: 2000, turn: 150 },
  'native-hit-1M': { make: () => nativeHit(2 ** 20), warmup: 2000, turn: 150 },
  'engine-1': { make: (samples) => engineStep(1, samples), warmup: 1500, turn: 100 },
  'engine-64': { make: (samples) => engineStep(64, samples), warmup: 1500, turn: 100 },
  'engine-256': { make: (samples) => engineStep(256, samples), warmup: 1500, turn: 100 },
  'engine-1024': { make: (samples) => engineStep(1024, samples), warmup: 1500, turn: 50 },
  'for-await-256': { make: forAwait, warmup: 1500, turn: 100 },
  submit: { make: submit, warmup: 4000, turn: 200 },
  'lives-64': { make: lives, warmup: 2, turn: 2 },
};

/** Times a call, less what it takes to read the clock. */
function timed(run: () => void, batch = 1, before?: () => void, after?: () => void): Case['time'] {
  const clock = clockTime();
  return (samples) => {
    const times: number[] = [];
    for (let i = 0; i < samples; i++) {
      before?.();
      const start = performance.now();
      for (let j = 0; j < batch; j++) run();
      times.push(((performance.now() - start) * 1000 - clock) / batch);
      after?.();
    }
    return times;
  };
}

/** Microseconds to read the clock, at least. */
function clockTime(): number {
  let least = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 10_000; i++) least = Math.min(least, -(performance.now() - performance.now()) * 1000);
  return least;
}

function decode(size: number, batch: number, variant: DecodeVariant = {}): Plan {
  const make = (samples: number): Case => {
    const { scheduler, step } = makeDecode(size, samples * batch + 2, variant);
    const end = (): void => {
      const { numRunning, numPreemptions } = scheduler.stats();
      if (numRunning !== size || numPreemptions > 0) throw new Error(`${numRunning} of ${size} requests run`);
      scheduler.dispose();
    };
    return { time: timed(step, batch), end };
  };
  // Few enough steps that requests stay below 10,000 tokens.
  return {
    make,
    warmup: Math.ceil(1600 / batch),
    turn: size >= 1024 ? 100 : size >= 256 ? 200 : 400 / batch,
  };
}

function mixed(): Case {
  const workload = new Mixed();
  const halves = { schedule: 0, update: 0 };
  const time = (samples: number): number[] =>
    Array.from({ length: samples }, () => {
      workload.refill();
      return workload.step(halves) * 1000;
    });
  return { time, end: () => workload.check() };
}

/** Adding and scheduling a request of 2,048 tokens, of which the prefix cache has none, or all but the last block. */
function admission(isHit: boolean): Case {
  const scheduler = new Scheduler({
    numBlocks: 10_000,
    blockSize: BLOCK_SIZE,
    maxNumSeqs: 4,
    maxNumBatchedTokens: 2 * TOKENS,
    maxModelLen: 2 * TOKENS,
    hashSeed: HASH_SEED,
  });
  const prompts = new Prompts(TOKENS);
  const answer = { tokens: new Int32Array(1).fill(7), counts: new Int32Array(1).fill(1) };
  let count = 0;
  let plan = scheduler.schedule();
  scheduler.update(plan, { tokens: new Int32Array(0), counts: new Int32Array(0) });
  let request = { id: '', prompt: prompts.next(TOKENS), maxTokens: 1, eosTokenId: 2 };
  const before = (): void => {
    const prompt = isHit ? prompts.at(count % 32, TOKENS) : prompts.next(TOKENS);
    request = { id: `r${count++}`, prompt, maxTokens: 1, eosTokenId: 2 };
  };
  const run = (): void => {
    scheduler.add(request);
    plan = scheduler.schedule();
  };
  const after = (): void => {
    const computed = plan.numScheduledTokens[0];
    if (plan.numRequests !== 1 || (count > 32 && computed !== (isHit ? BLOCK_SIZE : TOKENS)))
      throw new Error(`${computed} tokens are computed for a ${isHit ? 'hit' : 'cold prompt'}`);
    scheduler.update(plan, answer);
  };
  return { time: timed(run, 1, before, after), end: () => scheduler.dispose() };
}

/** Taking 128 blocks of a pool that is full of cached ones, and publishing them. */
function coldAdmit(numBlocks: number): Case {
  const pool = new Pool(numBlocks, 'cached', true);
  const { native } = pool.core;
  let slot = 0;
  const before = (): void => {
    slot = pool.addNew();
  };
  const run = () => native.admit(slot, 0, TOKENS, TOKENS, TOKENS);
  return { time: timed(run, 1, before, () => pool.end(slot)), end: () => pool.check() };
}

/** Finding all 128 blocks of a prompt and taking them, of prompts that were used long ago. */
function nativeHit(numBlocks: number): Case {
  const pool = new Pool(numBlocks, 'cached', true);
  const prompts = pool.cachePrompts();
  const { native } = pool.core;
  let turn = 0;
  let slot = 0;
  const before = (): void => {
    slot = pool.add(prompts[turn++ % prompts.length]);
  };
  const run = (): void => {
    const hits = native.match(slot, BLOCKS);
    if (hits !== BLOCKS) throw new Error(`hit ${hits} blocks, expected ${BLOCKS}`);
    native.admit(slot, hits, TOKENS, TOKENS, TOKENS);
  };
  return { time: timed(run, 1, before, () => pool.close(slot)), end: () => pool.check() };
}

function engineStep(size: number, samples: number): Case {
  const { engine, submit: start } = makeEngine(size, samples + 4);
  for (let i = 0; i < size; i++) start(samples + 4);
  engine.step();
  const end = (): void => {
    if (engine.numRunning !== size) throw new Error(`${engine.numRunning} of ${size} requests run`);
    engine.dispose();
  };
  return { time: timed(() => engine.step()), end };
}

/** From the beginning of a step to the moment when the last of 256 readers has its token. */
function forAwait(samples: number): Case {
  const size = 256;
  const { engine, submit: start } = makeEngine(size, samples + 4);
  let left = 0;
  let last = 0;
  let tell: () => void = () => {};
  let fail: (error: unknown) => void = () => {};
  const read = async (): Promise<void> => {
    for await (const { tokens } of start(samples + 4)) {
      if (tokens.length !== 1) throw new Error(`${tokens.length} tokens in a chunk`);
      if (--left > 0) continue;
      last = performance.now();
      tell();
    }
  };
  // The end of the workload ends the streams too, when nobody waits any more.
  for (let i = 0; i < size; i++) read().catch((error) => fail(error));
  const step = async (): Promise<number> => {
    left = size;
    const told = new Promise<void>((resolve, reject) => {
      tell = resolve;
      fail = reject;
    });
    const begin = performance.now();
    engine.step();
    await told;
    return (last - begin) * 1000;
  };
  const time = async (count: number): Promise<number[]> => {
    const times: number[] = [];
    for (let i = 0; i < count; i++) {
      times.push(await step());
      // As a loop does: tasks of the event loop get their turn.
      if (i % 50 === 49) await new Promise((resolve) => setImmediate(resolve));
    }
    return times;
  };
  return { time, end: () => engine.dispose() };
}

/** Submitting a request of 16 tokens to an engine whose queue is short. */
function submit(samples: number): Case {
  const { engine } = makeEngine(1, 8);
  const prompts = new Prompts(16);
  let made: { abort: () => void }[] = [];
  let count = 0;
  const one = timed(() => {
    made.push(engine.submit({ id: `r${count}`, prompt: prompts.next(16), maxTokens: 8 }));
    count++;
  }, 1);
  const time = (wanted: number): number[] | Promise<number[]> => {
    const times = one(wanted);
    for (const stream of made) stream.abort();
    made = [];
    engine.step();
    return times;
  };
  const end = (): void => {
    if (count < samples || engine.numRunning > 0) throw new Error(`${count} of ${samples} were submitted`);
    engine.dispose();
  };
  return { time, end };
}

/** A step of 64 decodes in a scheduler that is new, the mean of 300: a process makes and disposes one after another. */
function lives(): Case {
  const steps = 300;
  const one = (): number => {
    const { scheduler, step } = makeDecode(64, steps + 2);
    const begin = performance.now();
    for (let i = 0; i < steps; i++) step();
    const spent = performance.now() - begin;
    scheduler.dispose();
    return (spent * 1000) / steps;
  };
  return { time: (samples) => Array.from({ length: samples }, one), end: () => {} };
}
