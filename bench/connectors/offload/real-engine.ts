// Working sets with the reference executor, in real time.
import { Random } from '../../../src/base/random.js';
import { type OffloadConnector, offload } from '../../../src/connectors/offload/index.js';
import { DEFAULT_COST_MODEL, deviceMs } from '../../../src/executors/cost-model/cost-model.js';
import { Engine, type Executor, ReferenceExecutor } from '../../../src/index.js';

const BLOCK_SIZE = 16;
const POOL = 512;
const LENGTH = 512;
const REQUESTS = 400;
const AT_ONCE = 8;

type Table = [string[], string[][]];

/**
 * Working sets with an executor that really computes, and lanes that really copy: tokens per second
 * of real time. It runs twice. As it is, computing a token takes a fraction of a microsecond, less
 * than any copy of its KV. In the second run, each step also takes the time of the cost model.
 */
export async function realRows(): Promise<Table> {
  const rows: string[][] = [];
  // An engine that waits for a load keeps no process alive.
  const alive = setInterval(() => {}, 1000);
  // V8 compiles the hot paths first.
  for (let i = 0; i < 3; i++) await run(3, true, false);
  for (const share of [0.5, 1, 3, 10]) {
    for (const hasOffload of [false, true])
      rows.push([...(await run(share, hasOffload, false)), ...(await run(share, hasOffload, true)).slice(2)]);
  }
  clearInterval(alive);
  return [
    [
      'pools',
      '',
      'real s',
      'tokens/s',
      'hits pool',
      'hits host',
      'with device time: real s',
      'tokens/s',
      'hits pool',
      'hits host',
    ],
    rows,
  ];
}

async function run(share: number, hasOffload: boolean, takesTime: boolean): Promise<string[]> {
  const sizes = {
    numBlocks: POOL + 1,
    blockSize: BLOCK_SIZE,
    maxNumSeqs: 16,
    maxNumBatchedTokens: 2048,
    maxModelLen: 1024,
  };
  let stepMs = 0;
  const defer = (compute: () => void): void => void setTimeout(compute, stepMs);
  const reference = new ReferenceExecutor({ ...sizes, ...(takesTime && { defer }) });
  const executor: Executor = {
    limits: reference.limits,
    execute: (plan, tables) => {
      // A prompt is computed in one step, and then a token per step.
      const prefillTokens = plan.totalTokens - plan.numRequests;
      stepMs = deviceMs(DEFAULT_COST_MODEL, { prefillTokens, decodes: 1, decodeContextTokens: 0 });
      return reference.execute(plan, tables);
    },
  };
  const sides = hasOffload ? offload({ memory: reference, hostBlocks: 12 * POOL }) : {};
  const engine = new Engine({ ...sizes, hashSeed: 1, executor, ...sides });
  const numPrompts = Math.max(1, Math.round((share * POOL * BLOCK_SIZE) / LENGTH));
  const random = new Random(3);
  void engine.run();
  const start = performance.now();
  let left = REQUESTS;
  let tokens = 0;
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      while (left-- > 0) {
        const which = random.below(numPrompts);
        const prompt = Int32Array.from({ length: LENGTH }, (_, i) =>
          i === 0 ? which : (which * 31 + i) % 500,
        );
        const result = await engine.submit({ prompt, maxTokens: 16 }).result();
        tokens += LENGTH + result.tokens.length;
      }
    }),
  );
  const seconds = (performance.now() - start) / 1000;
  const { prefixCacheHits } = engine.stats().scheduler;
  const hostHits = (sides as { connector?: OffloadConnector }).connector?.stats().host.hitTokens ?? 0;
  const percent = (hits: number): string => `${((100 * hits) / (REQUESTS * LENGTH)).toFixed(1)} %`;
  if (reference.numFaults > 0) throw new Error(`${reference.numFaults} faults`);
  engine.dispose();
  reference.dispose();
  return [
    String(share),
    hasOffload ? 'offload' : 'pool alone',
    seconds.toFixed(2),
    (tokens / seconds).toFixed(0),
    percent(prefixCacheHits),
    percent(hostHits),
  ];
}
