/**
 * The smallest executor, of `docs/executors.md`. It is a model with one number per token. Where a
 * real model writes keys and values, this one writes the token. It makes the next token of all
 * numbers that it reads back. So a wrong block gives wrong text.
 *
 *     npx tsx examples/executor.ts
 *
 * prints the tokens of one request.
 */
import { pathToFileURL } from 'node:url';
import {
  Engine,
  type Executor,
  type ExecutorLimits,
  type ExecutorPlan,
  type ExecutorResult,
  type StepTables,
} from 'blockstep';

export class ToyExecutor implements Executor {
  /** The pool that it has memory for: an engine with another one is refused. */
  readonly limits: ExecutorLimits;
  readonly #blockSize: number;
  readonly #kv: Int32Array;

  constructor({ numBlocks, blockSize }: { numBlocks: number; blockSize: number }) {
    this.limits = { numBlocks, blockSize, kvGroups: null };
    this.#blockSize = blockSize;
    this.#kv = new Int32Array(numBlocks * blockSize);
  }

  execute(plan: ExecutorPlan, tables: StepTables | null): ExecutorResult {
    if (tables === null) throw new Error('this executor reads tables');
    // First everything is written: an entry may read what another entry of the same step computes.
    for (let t = 0; t < plan.totalTokens; t++) this.#kv[Number(tables.slotMapping[t])] = tables.inputIds[t];
    const counts = Int32Array.from(plan.maxOutputTokens.subarray(0, plan.numRequests));
    const tokens = [...counts.keys()].filter((i) => counts[i] > 0).map((i) => this.#next(tables, i));
    return { tokens: Int32Array.from(tokens), counts };
  }

  /** Attention: reads the KV of every position of the entry, through its row of the block table. */
  #next({ blockTable, maxBlocksPerRow, seqLens }: StepTables, entry: number): number {
    let sum = 0;
    for (let p = 0; p < seqLens[entry]; p++) {
      const block = blockTable[entry * maxBlocksPerRow + Math.floor(p / this.#blockSize)];
      sum = (31 * sum + this.#kv[block * this.#blockSize + (p % this.#blockSize)]) % 32_000;
    }
    return sum;
  }
}

export async function main(print: (line: string) => void = console.log): Promise<void> {
  const options = { numBlocks: 64, blockSize: 16, maxNumSeqs: 8, maxModelLen: 512 };
  const engine = new Engine({ ...options, executor: new ToyExecutor(options) });
  engine.run();
  for await (const { tokens } of engine.submit({ prompt: [1, 2, 3], maxTokens: 5 })) print(tokens.join(' '));
  await engine.shutdown();
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main();
