import { Engine, type EngineOptions } from '../../../src/index.js';
import { DoNothing } from '../../engine/engine-workloads.js';
import { BLOCK_SIZE, HASH_SEED, Prompts } from '../../workloads/workloads.js';

/** Requests that decode at once. */
export const SIZE = 256;
/** Tokens of a prompt, where the requests do not differ. */
export const PROMPT = 512;
/** Steps until every request runs, at most. */
const MOST_AHEAD = 1000;
/** Blocks beside those of the decodes: for leases, and for requests that queue. */
const ROOM = 8192;

/** The sides of a connector, and whether it did what its case says. */
export interface Sides extends Pick<EngineOptions, 'connector' | 'workers'> {
  /** Called after so many steps of decode. Throws if the connector did not what it was to do. */
  readonly check?: (numSteps: number) => void;
}

/** The prompts of the requests of a workload. */
export type Texts =
  /** All say the same, so that hardly a block is new; all fill their blocks in the same step. */
  | 'alike'
  /** No two say the same, and each has one token more than the one before: 16 blocks are filled in every step. */
  | 'spread';

/** Makes the sides of a connector for a pool of so many blocks. */
export type MakeSides = (numBlocks: number) => Sides;

/** 256 requests that decode in an engine whose executor does nothing, with a connector or without one. */
export class Decodes {
  readonly engine: Engine;
  readonly #sides: Sides;
  readonly #prompts: Prompts;
  readonly #maxTokens: number;

  /** @param numSteps steps for which the requests go on, at least */
  constructor(numSteps: number, makeSides: MakeSides) {
    this.#maxTokens = numSteps + MOST_AHEAD;
    const blocksEach = Math.ceil((PROMPT + BLOCK_SIZE + this.#maxTokens) / BLOCK_SIZE) + 1;
    const numBlocks = SIZE * blocksEach + ROOM;
    this.#prompts = new Prompts(blocksEach * BLOCK_SIZE);
    this.#sides = makeSides(numBlocks);
    const { connector, workers } = this.#sides;
    this.engine = new Engine({
      numBlocks,
      blockSize: BLOCK_SIZE,
      maxNumSeqs: SIZE,
      maxNumBatchedTokens: numBlocks * BLOCK_SIZE,
      maxModelLen: blocksEach * BLOCK_SIZE,
      hashSeed: HASH_SEED,
      executor: new DoNothing(SIZE),
      ...(connector && { connector }),
      ...(workers && { workers }),
    });
  }

  /** Prompt number `index`; no two have a common first block. Valid until the next call. */
  prompt(index: number, length = PROMPT): Int32Array {
    return this.#prompts.at(index, length);
  }

  /**
   * Submits the requests, and steps until all of them run: a connector may set them aside for a
   * while.
   */
  start(texts: Texts): void {
    for (let i = 0; i < SIZE; i++) {
      const prompt = texts === 'alike' ? this.prompt(0) : this.prompt(i, PROMPT + (i % BLOCK_SIZE));
      this.engine
        .submit({ prompt, maxTokens: this.#maxTokens, eosTokenId: 2 })
        .result()
        .catch(() => {});
    }
    for (let i = 0; this.engine.numRunning < SIZE; i++) {
      if (i >= MOST_AHEAD) throw new Error(`only ${this.engine.numRunning} run`);
      this.engine.step();
      sleep(1);
    }
  }

  /** Throws if the workload was not what it says. */
  check(numSteps: number): void {
    if (this.engine.numRunning !== SIZE) throw new Error(`${this.engine.numRunning} requests run`);
    this.#sides.check?.(numSteps);
  }
}

const WORD = new Int32Array(new SharedArrayBuffer(4));

/** Waits as an engine waits for a device: this thread does nothing, and the event loop neither. */
export function sleep(ms: number): void {
  if (ms > 0) Atomics.wait(WORD, 0, 0, ms);
}
