import {
  Engine,
  type EngineOptions,
  type Executor,
  type ExecutorPlan,
  type ExecutorResult,
  type RequestOutput,
  type RequestStream,
  type SubmitInput,
  type SubmitOptions,
} from '../../src/index.js';
import { prompt } from './driver.js';

export { prompt, Random } from './driver.js';

/** The input of an executor for one step, copied, since plans are reused. */
export interface Seen {
  step: number;
  ids: string[];
  finished: string[];
  preempted: string[];
}

/** One token for each entry that is complete: 100 times its number of computed tokens. */
export function answerOf(plan: ExecutorPlan): ExecutorResult & { errors: Uint8Array } {
  const n = plan.numRequests;
  const counts = Int32Array.from(plan.maxOutputTokens.subarray(0, n), (most) => Math.min(most, 1));
  const tokens: number[] = [];
  for (let i = 0; i < n; i++) {
    if (counts[i] === 1) tokens.push(100 * (plan.numComputedTokens[i] + plan.numScheduledTokens[i]));
  }
  return { tokens: Int32Array.from(tokens), counts, errors: new Uint8Array(n) };
}

/** Answers at once, or by promises that the test settles one by one. */
export class FakeExecutor implements Executor {
  readonly usesTables = false;
  readonly seen: Seen[] = [];
  /** Steps not answered yet, oldest first. */
  readonly pending: {
    resolve: (answer: unknown) => void;
    reject: (error: unknown) => void;
    answer: unknown;
  }[] = [];
  /** Runs inside `execute`. */
  onExecute: (plan: ExecutorPlan) => void = () => {};
  /** Makes the answer. */
  answer: (plan: ExecutorPlan) => unknown = answerOf;
  async: boolean;
  disposals = 0;

  constructor(async = false) {
    this.async = async;
  }

  execute(plan: ExecutorPlan): ExecutorResult | PromiseLike<ExecutorResult> {
    const { step, requests, numRequests, finished, preempted } = plan;
    const ids = requests.slice(0, numRequests).map(({ id }) => id);
    this.seen.push({ step, ids, finished: [...finished], preempted: [...preempted] });
    this.onExecute(plan);
    const answer = this.answer(plan);
    if (!this.async) return answer as ExecutorResult;
    return new Promise((resolve, reject) => {
      this.pending.push({ resolve: resolve as (answer: unknown) => void, reject, answer });
    });
  }

  /** Answers the oldest steps; the engine knows the answers when the promise resolves. */
  async deliver(count = 1): Promise<void> {
    for (const { resolve, answer } of this.pending.splice(0, count)) resolve(answer);
    await settled();
  }

  async reject(error: unknown): Promise<void> {
    this.pending.shift()?.reject(error);
    await settled();
  }

  dispose(): void {
    this.disposals++;
  }
}

/** When all promises that can settle by themselves have. */
export async function settled(): Promise<void> {
  for (let i = 0; i < 10; i++) await Promise.resolve();
}

/** A small engine on a clock that is set by hand. */
export class EngineBench {
  readonly executor: FakeExecutor;
  readonly engine: Engine;
  time = 1000;
  onClock: () => void = () => {};

  constructor(options: Partial<EngineOptions> = {}, async = false) {
    this.executor = new FakeExecutor(async);
    this.engine = new Engine({
      numBlocks: 33,
      blockSize: 4,
      maxNumSeqs: 4,
      maxNumBatchedTokens: 32,
      maxModelLen: 64,
      hashSeed: 7,
      executor: this.executor,
      now: () => {
        this.onClock();
        return this.time;
      },
      ...options,
    });
  }

  submit(input: Partial<SubmitInput> & { id?: string } = {}, options: SubmitOptions = {}): RequestStream {
    return this.engine.submit({ prompt: prompt(6), maxTokens: 4, ...input }, options);
  }

  /** Steps until nothing moves by itself. @returns the state that it ended in */
  steps(most = 200): string {
    for (let i = 0; i < most; i++) {
      const { state } = this.engine.step();
      if (state !== 'progress') return state;
    }
    throw new Error('it never rests');
  }

  /** Steps and answers until there is nothing left to do. */
  async finish(most = 500): Promise<void> {
    for (let i = 0; i < most; i++) {
      if (this.steps() !== 'waiting') return;
      await this.executor.deliver();
    }
    throw new Error('it never ends');
  }
}

/** The outputs of a stream until its end, without asking for its end. */
export async function outputs(stream: AsyncIterable<RequestOutput>): Promise<RequestOutput[]> {
  const all: RequestOutput[] = [];
  for await (const output of stream) all.push(output);
  return all;
}

export function tokensOf(all: readonly RequestOutput[]): number[] {
  return all.flatMap(({ tokens }) => [...tokens]);
}

/**
 * Lists the remains of all requests. A correct engine has no stream, no block and no row in use,
 * and all invariants hold.
 */
export function leftovers(engine: Engine): string[] {
  engine.verify();
  const { scheduler, streams, stepsInFlight, abortsQueued } = engine.stats();
  const found: string[] = [];
  if (scheduler.freeBlocks !== engine.scheduler.config.numBlocks - 1) {
    found.push(`${engine.scheduler.config.numBlocks - 1 - scheduler.freeBlocks} blocks`);
  }
  if (scheduler.rowsInUse !== 0) found.push(`${scheduler.rowsInUse} rows`);
  if (streams !== 0) found.push(`${streams} streams`);
  if (stepsInFlight + scheduler.stepsInFlight !== 0) found.push('steps in flight');
  if (abortsQueued !== 0) found.push('aborts');
  if (scheduler.numRunning + scheduler.numWaiting + scheduler.numSkipped + scheduler.numDraining !== 0) {
    found.push('requests');
  }
  return found;
}

/** The error with which a promise rejects; fails if it does not reject. */
export async function rejection(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error('it did not reject');
}
