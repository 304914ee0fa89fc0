import { Engine, type Executor, type ExecutorPlan, type ExecutorResult } from '../../src/index.js';
import { Pipeline, type StageOptions, type Transport } from '../../src/pipeline/index.js';

const SIZES = {
  ...{ numBlocks: 4096, blockSize: 16, maxNumSeqs: 64, maxNumBatchedTokens: 4096, maxModelLen: 2048 },
  enablePrefixCaching: false,
};
const PROMPT = new Int32Array(32).fill(7);
/** Tokens of a chunk, and of the answer of a stage to it. */
const CHUNK = 16;

/** Answers at once. */
class Instant implements Executor {
  execute({ numRequests, maxOutputTokens }: ExecutorPlan): Promise<ExecutorResult> {
    const counts = Int32Array.from(maxOutputTokens.subarray(0, numRequests));
    const tokens = new Int32Array(counts.reduce((sum, count) => sum + count, 0)).fill(7);
    return Promise.resolve({ tokens, counts });
  }
}

/**
 * The flow through a pipeline: tokens of the last stage a second, of 64 requests at a time;
 * milliseconds of one chunk alone, the median.
 */
export interface Flow {
  readonly tokensPerSecond: number;
  readonly aloneMs: number;
}

interface Served {
  /** Resolves when the request has ended. */
  request(maxTokens: number): Promise<unknown>;
  close(): Promise<void>;
}

/** One engine, without a pipeline. */
export function engineAlone(): Served {
  const engine = new Engine({ ...SIZES, executor: new Instant() });
  void engine.run();
  return {
    request: (maxTokens) => engine.submit({ prompt: PROMPT, maxTokens }).result(),
    close: () => engine.shutdown({ drainMs: 0 }).then(() => {}),
  };
}

/** One engine whose outputs are read one by one as they come, which is what a stage does. */
export function engineRead(): Served {
  const engine = new Engine({ ...SIZES, executor: new Instant() });
  void engine.run();
  return {
    request: async (maxTokens) => {
      let last: unknown;
      for await (const output of engine.submit({ prompt: PROMPT, maxTokens })) last = output;
      return last;
    },
    close: () => engine.shutdown({ drainMs: 0 }).then(() => {}),
  };
}

/** Stages in a row, each of which answers a chunk with as many tokens. */
export function stages(count: number, transport?: Transport): Served {
  const stage = (_: unknown, i: number): StageOptions => ({
    ...{ name: `s${i}`, engine: { ...SIZES, executor: new Instant() }, chunkTokens: CHUNK },
    ...(i > 0 && { defaults: { maxTokens: CHUNK } }),
  });
  const all = Array.from({ length: count }, stage);
  const pipeline = new Pipeline({ stages: all, ...(transport !== undefined && { transport }) });
  pipeline.run();
  return {
    request: (maxTokens) => pipeline.submit({ prompt: PROMPT, maxTokens }).result(),
    close: () => pipeline.shutdown({ drainMs: 0 }),
  };
}

/** @param requests in all, of 128 tokens each */
export async function measureFlow(served: Served, requests: number): Promise<Flow> {
  const maxTokens = 8 * CHUNK;
  const some = (count: number): Promise<unknown> =>
    Promise.all(Array.from({ length: count }, () => served.request(maxTokens)));
  await some(64);
  const begun = performance.now();
  for (let done = 0; done < requests; done += 64) await some(64);
  const tokensPerSecond = (1000 * requests * maxTokens) / (performance.now() - begun);
  const times: number[] = [];
  for (let i = 0; i < 200; i++) {
    const at = performance.now();
    await served.request(CHUNK);
    times.push(performance.now() - at);
  }
  await served.close();
  return { tokensPerSecond, aloneMs: times.sort((a, b) => a - b)[times.length >> 1] };
}
