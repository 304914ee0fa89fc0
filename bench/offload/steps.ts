import { offload } from '../../src/connectors/offload/index.js';
import { BlockArena, Engine, type EngineOptions } from '../../src/index.js';
import { DoNothing } from '../engine/engine-workloads.js';
import { measure } from '../rows/measure.js';
import type { Latency } from '../rows/row.js';
import { BLOCK_SIZE, HASH_SEED, Prompts, touchPool } from '../workloads/workloads.js';

const SIZE = 256;
const SAMPLES = 4000;
const WARMUP = 1500;
const ROUNDS = 5;
const PROMPT = 512;
/** Steps that are timed as a whole, for the mean. */
const WHOLE = 2000;
const STEPS = SAMPLES + WARMUP + WHOLE + 40;

type Timed = Latency & { mean: number };
type Table = [string[], string[][]];

/** What any connector costs: both sides are asked in every step, and say nothing. */
const NOTHING = {
  connector: {
    getNumNewMatchedTokens: () => ({ numTokens: 0, async: false }),
    updateStateAfterAlloc: () => {},
    buildMetadata: () => null,
    requestFinished: () => ({ delayFree: false }),
  },
  workers: [{ getFinished: () => null }],
};

/**
 * A decode step of 256 requests in an engine, with an executor that does nothing. `idle`: the requests fill their blocks
 * in the same step, so that 15 of 16 steps have nothing to store, and the median is of these. `at work`: each request has
 * one token more than the one before, so that in every step 16 blocks become settled and are stored by a real lane.
 * The cases take turns; the round with the best median counts.
 */
export function stepRows(): Table {
  const best: Record<string, Timed> = {};
  const cases: [string, () => Timed][] = [
    ['aligned, no connector', () => runOne('none', false)],
    ['aligned, a connector that does nothing', () => runOne('nothing', false)],
    ['aligned, offload (idle)', () => runOne('offload', false)],
    ['spread, no connector', () => runOne('none', true)],
    ['spread, offload (at work)', () => runOne('offload', true)],
  ];
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, make] of cases) {
      const latency = make();
      if (best[name] === undefined || latency.p50 < best[name].p50) best[name] = latency;
    }
  }
  const of = (name: string): Timed => best[name];
  const rows = cases.map(([name]) => {
    const base = of(name.startsWith('aligned') ? 'aligned, no connector' : 'spread, no connector');
    const { p50, p90, p99, mean } = of(name);
    const times = [p50, p90, p99, mean].map((us) => us.toFixed(1));
    return [name, ...times, (p50 / base.p50).toFixed(2), (mean / base.mean).toFixed(2)];
  });
  return [
    ['step of 256 decodes', 'p50 µs', 'p90', 'p99', 'mean', 'p50 over without', 'mean over without'],
    rows,
  ];
}

export function runOne(which: 'none' | 'nothing' | 'offload', isSpread: boolean): Timed {
  const blocksEach = Math.ceil((PROMPT + BLOCK_SIZE + STEPS) / BLOCK_SIZE) + 1;
  const executor = new DoNothing(SIZE);
  const numBlocks = SIZE * blocksEach + 1;
  const kv = BlockArena.allocate({ numBlocks, bytesPerBlock: 64 });
  const options: EngineOptions = {
    numBlocks,
    blockSize: BLOCK_SIZE,
    maxNumSeqs: SIZE,
    maxNumBatchedTokens: SIZE * blocksEach * BLOCK_SIZE,
    maxModelLen: blocksEach * BLOCK_SIZE,
    hashSeed: HASH_SEED,
    executor,
  };
  const hostBlocks = 2 * numBlocks;
  const sides =
    which === 'offload' ? offload({ memory: { kv }, hostBlocks, maxPinnedBlocks: numBlocks }) : null;
  const engine = new Engine({
    ...options,
    ...(which === 'nothing' && NOTHING),
    ...(sides !== null && sides),
  });
  const prompts = new Prompts(blocksEach * BLOCK_SIZE);
  if (sides === null) touchPool(engine.scheduler, prompts, SIZE, blocksEach, false);
  for (let i = 0; i < SIZE; i++) {
    const prompt = prompts.next(PROMPT + (isSpread ? i % BLOCK_SIZE : 0));
    engine.submit({ prompt, maxTokens: STEPS, eosTokenId: 2 });
  }
  for (let i = 0; i < 40; i++) engine.step();
  const latency = measure({ run: () => void engine.step() }, { samples: SAMPLES, warmup: WARMUP - 40 });
  const start = performance.now();
  for (let i = 0; i < WHOLE; i++) engine.step();
  const mean = (1000 * (performance.now() - start)) / WHOLE;
  if (engine.numRunning !== SIZE) throw new Error('the step is not what it says');
  if (sides !== null) {
    const { stores, blocks } = sides.connector.stats().host;
    const wanted = (SIZE * (SAMPLES + WARMUP + WHOLE)) / BLOCK_SIZE;
    if (blocks < 0.9 * wanted || stores.skippedBlocks > 0)
      throw new Error(`only ${blocks} of ${wanted} blocks were stored`);
  }
  engine.dispose();
  return { ...latency, mean };
}
