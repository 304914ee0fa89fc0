// The measured engine, and an executor that does nothing.
import { Engine, type Executor, type ExecutorResult, type RequestStream } from '../../src/index.js';
import { schedulerOf } from '../../test/support/scheduler-of.js';
import { BLOCK_SIZE, HASH_SEED, Prompts, touchPool } from '../workloads/workloads.js';

const PROMPT = 512;
const SAMPLED = 7;

/** Answers every step at once, with one token for each entry. All prompts must fit into one step. */
export class DoNothing implements Executor {
  readonly usesTables: boolean;
  /** Called in every step. */
  onStep: () => void = () => {};
  readonly #result: ExecutorResult;

  constructor(numRequests: number, usesTables = false) {
    this.usesTables = usesTables;
    this.#result = {
      tokens: new Int32Array(numRequests).fill(SAMPLED),
      counts: new Int32Array(numRequests).fill(1),
    };
  }

  execute(): ExecutorResult {
    this.onStep();
    return this.#result;
  }
}

export interface EngineWorkload {
  engine: Engine;
  executor: DoNothing;
  /** Submits one request that generates `maxTokens` tokens. */
  submit: (maxTokens: number) => RequestStream;
}

/** An engine with the workload of `makeDecode`: `numRequests` at once, prompts of 512 tokens and up to 15 more. */
export function makeEngine(numRequests: number, numTokens: number, usesTables = false): EngineWorkload {
  const blocksEach = Math.ceil((PROMPT + BLOCK_SIZE + numTokens) / BLOCK_SIZE) + 1;
  const executor = new DoNothing(numRequests, usesTables);
  const engine = new Engine({
    numBlocks: numRequests * blocksEach + 1,
    blockSize: BLOCK_SIZE,
    maxNumSeqs: numRequests,
    maxNumBatchedTokens: numRequests * blocksEach * BLOCK_SIZE,
    maxModelLen: blocksEach * BLOCK_SIZE,
    hashSeed: HASH_SEED,
    executor,
  });
  const prompts = new Prompts(blocksEach * BLOCK_SIZE);
  touchPool(schedulerOf(engine), prompts, numRequests, blocksEach, false);
  let count = 0;
  const submit = (maxTokens: number) =>
    engine.submit({ prompt: prompts.next(PROMPT + (count++ % BLOCK_SIZE)), maxTokens, eosTokenId: 2 });
  return { engine, executor, submit };
}
