import {
  Engine,
  type EngineOptions,
  type Request,
  type RequestStream,
  type SubmitInput,
} from '../../../src/index.js';
import { settled } from '../../support/engine-bench.js';
import { AttentiveExecutor, type Mood } from './attentive-executor.js';

const SHAPE = { numBlocks: 33, blockSize: 4 };

/** An engine over an executor that forgets blocks when it is told to. */
export class ForgetfulBench {
  readonly executor = new AttentiveExecutor(SHAPE);
  readonly engine: Engine;
  time = 0;
  /** Entries of each step, as `id kind computed`. */
  readonly seen: string[][] = [];

  constructor(options: Partial<EngineOptions> = {}) {
    const { executor } = this;
    executor.atOnce = () => false;
    executor.onStep = ({ numRequests, requests, kinds, numComputedTokens }) => {
      const entry = (i: number) => `${requests[i].id} ${kinds[i]} ${numComputedTokens[i]}`;
      this.seen.push(Array.from({ length: numRequests }, (_, i) => entry(i)));
    };
    this.engine = new Engine({
      ...SHAPE,
      maxNumSeqs: 4,
      maxNumBatchedTokens: 64,
      maxModelLen: 64,
      loadFailurePolicy: 'recompute',
      hashSeed: 7,
      now: () => this.time,
      executor,
      ...options,
    });
  }

  submit(id: string, text: readonly number[], more: Partial<SubmitInput> = {}): RequestStream {
    return this.engine.submit({ id, prompt: Int32Array.from(text), maxTokens: 6, ...more });
  }

  /** The next step is computed without these blocks, and says so. */
  lose(...blocks: number[]): void {
    this.executor.loses = () => {
      this.executor.loses = () => [];
      return blocks;
    };
  }

  fail(mood: Exclude<ReturnType<Mood>, null>): void {
    this.executor.mood = () => {
      this.executor.mood = () => null;
      return mood;
    };
  }

  blocksOf({ id }: RequestStream): number[] {
    const { scheduler } = this.engine;
    return [...scheduler.core.blocks((scheduler.get(id) as Request).slot)];
  }

  async answer(): Promise<void> {
    this.executor.pending.shift()?.();
    await settled();
  }

  async finish(): Promise<void> {
    for (let i = 0; i < 200 && this.engine.step().state !== 'idle'; i++) await this.answer();
  }
}

/** Tokens that no other family has. */
export const text = (length: number, family = 0) => Array.from({ length }, (_, i) => 100 * family + i);
export const said = async (stream: RequestStream) => [...(await stream.result()).tokens];
