import { Random } from '../../../../src/base/random.js';
import { offload } from '../../../../src/connectors/offload/offload.js';
import { Engine } from '../../../../src/engine/engine.js';
import type { SamplingParams } from '../../../../src/engine/executor/sampling-params.js';
import {
  LlamaExecutor,
  type LlamaExecutorStats,
} from '../../../../src/executors/llama-cpp/llama-executor.js';
import { LlamaModel } from '../../../../src/executors/llama-cpp/model/llama-model.js';
import type { NativeContext } from '../../../../src/executors/llama-cpp/native/binding.js';
import type { Alone } from './alone.js';
import { type Fault, faulty } from './faulty-context.js';
import type { NumberType } from './numbers.js';

/** The parameters of a run. */
export interface RunOptions {
  readonly model: LlamaModel;
  readonly alone: Alone;
  readonly numbers: NumberType;
  readonly seed: number;
  readonly drafts?: boolean;
  readonly sampling?: boolean;
  /** Whether requests have adapters of the model, by chance. */
  readonly adapters?: boolean;
  readonly fault?: Fault;
  /** Blocks of the pool; absent: by chance. */
  readonly numBlocks?: number;
  /** Most requests in a step; absent: by chance, at most 16. */
  readonly maxNumSeqs?: number;
  /** Sequences that keep prefixes; absent: by chance. */
  readonly cachedSequences?: number;
  /** Whether blocks move to host memory and back, while requests come and go. */
  readonly offloads?: boolean;
}

/** The figures of a run. */
export interface RunFigures extends LlamaExecutorStats {
  requests: number;
  compared: number;
  /** Requests that parted from the model alone where two tokens were about equally likely. */
  near: number;
  /** Requests that parted from it otherwise. */
  wrong: number;
  errors: number;
  aborted: number;
  preemptions: number;
  cachedTokens: number;
  accepted: number;
  changed: number;
  /** Blocks that were saved, loaded, and refused. */
  saved: number;
  loaded: number;
  refused: number;
  /** The largest gap that was excused. */
  largestGap: number;
  /** The faults, in words. */
  reports: string[];
}

interface Job {
  readonly id: string;
  readonly prompt: Int32Array;
  readonly maxTokens: number;
  readonly params: SamplingParams | undefined;
  /** '': none. */
  readonly adapter: string;
}

interface Outcome extends Job {
  readonly tokens: number[];
  readonly aborted: boolean;
  readonly error: unknown;
  readonly preemptions: number;
  readonly cached: number;
}

/** Runs random requests in a random engine, and compares every text with that of the model alone. */
export async function randomRun(options: RunOptions): Promise<RunFigures> {
  const { model, alone, numbers, seed, drafts = false, fault } = options;
  const random = new Random(seed);
  const below = (n: number): number => Math.floor(random.next() * n);
  const one = <T>(list: readonly T[]): T => list[below(list.length)];
  const canShare = model.info.memory === 'attention';
  const numBlocks = options.numBlocks ?? one([12, 24, 40, 64, 128]);
  const blockSize = one([8, 16]);
  const shape = {
    numBlocks,
    blockSize,
    maxNumSeqs: options.maxNumSeqs ?? 4 + below(13),
    maxModelLen: Math.min(300, (numBlocks - 1) * blockSize),
    maxNumBatchedTokens: one([32, 48, 64, 160]),
    ...(drafts && { numSpeculativeTokens: 3 }),
  };
  const wrapped = fault === undefined ? null : plantFault(model, fault, below);
  const cachedSequences = options.cachedSequences ?? one([0, 2, 8, 64]);
  const executor = await LlamaExecutor.create({
    model,
    ...shape,
    ...numbers.options,
    threads: 1,
    microBatch: one([32, 512]),
    ...(canShare && { cachedSequences: options.offloads ? Math.max(1, cachedSequences) : cachedSequences }),
    ...(options.offloads && { kvTransfer: true }),
  });
  wrapped?.remove();
  const policy = one(['fcfs', 'priority'] as const);
  const engine = new Engine({
    ...shape,
    executor,
    ...(options.offloads && {
      ...offload({ memory: executor, hostBlocks: one([20, 200]), storeEvery: 1 }),
      loadFailurePolicy: 'recompute' as const,
    }),
    policy,
    longPrefillTokenThreshold: one([0, 0, 24]),
    reserveFullIsl: one([true, false]),
    enablePrefixCaching: canShare,
    ...(drafts && { speculativeMethod: 'ngram' as const }),
  });
  engine.run();
  const { vocabSize, endTokens } = model.info;
  const token = (): number => {
    for (;;) {
      const drawn = below(vocabSize);
      if (!endTokens.includes(drawn)) return drawn;
    }
  };
  const tokens = (count: number): number[] => Array.from({ length: count }, token);
  const prefixes = Array.from({ length: 3 }, () => tokens(8 + below(90)));
  const burst = below(2) === 0;
  const jobs = Array.from({ length: 8 + below(25) }, (_, i): Promise<Outcome> => {
    const prefix = below(4) === 0 ? [] : one(prefixes);
    const shared = below(3) === 0 ? prefix.slice(0, below(prefix.length + 1)) : prefix;
    const prompt = Int32Array.from(
      [...shared, ...tokens(1 + below(40))].slice(0, Math.max(1, shape.maxModelLen - 40)),
    );
    const maxTokens = 4 + below(32);
    const params = options.sampling
      ? sampling(i)
      : below(3) === 0
        ? { temperature: 0, logprobs: 1 }
        : { temperature: 0 };
    const adapter = options.adapters ? one(['', ...model.info.loras]) : '';
    const job = { id: `r${i}`, prompt, maxTokens, params, adapter };
    return play(engine, job, {
      delay: burst && below(4) > 0 ? 0 : below(30),
      abortAt: below(6) === 0 ? 1 + below(maxTokens) : 0,
      priority: policy === 'priority' ? below(3) : 0,
    });
  });
  const outcomes = await Promise.all(jobs);
  const stats = executor.stats();
  const kv = options.offloads ? executor.kv.stats() : null;
  const { specAcceptedTokens } = engine.stats().scheduler;
  await engine.shutdown();
  const figures: RunFigures = {
    ...stats,
    requests: outcomes.length,
    compared: 0,
    near: 0,
    wrong: 0,
    errors: 0,
    aborted: 0,
    preemptions: 0,
    cachedTokens: 0,
    accepted: specAcceptedTokens,
    changed: wrapped?.changed() ?? 0,
    saved: kv?.saved ?? 0,
    loaded: kv?.loaded ?? 0,
    refused: Object.values(kv?.refused ?? {}).reduce((sum, count) => sum + count, 0),
    largestGap: 0,
    reports: [],
  };
  for (const outcome of outcomes) await compare(outcome, alone, numbers, figures, seed);
  return figures;
}

/** The figures of several runs together. */
export function sumOf(runs: readonly RunFigures[]): RunFigures {
  const sum: Record<string, number> = {};
  for (const run of runs)
    for (const [name, value] of Object.entries(run))
      if (typeof value === 'number')
        sum[name] = name === 'largestGap' ? Math.max(sum[name] ?? 0, value) : (sum[name] ?? 0) + value;
  return { ...runs[0], ...sum, reports: runs.flatMap(({ reports }) => reports) };
}

/** Makes the next contexts of a model faulty. */
function plantFault(
  model: LlamaModel,
  fault: Fault,
  next: (below: number) => number,
): { changed: () => number; remove: () => void } {
  const { native } = LlamaModel.nativeOf(model);
  let changed = (): number => 0;
  const value: typeof native.createContext = async (given) => {
    const context: NativeContext = await Reflect.apply(Object.getPrototypeOf(native).createContext, native, [
      given,
    ]);
    const { sequences } = given;
    const made = faulty(context, fault, { next, sequences, vocabSize: model.info.vocabSize });
    changed = made.changed;
    return made;
  };
  Object.defineProperty(native, 'createContext', { value, configurable: true });
  return {
    changed: () => changed(),
    remove: () => {
      Reflect.deleteProperty(native, 'createContext');
    },
  };
}

function sampling(i: number): SamplingParams {
  return {
    temperature: 0.7 + (i % 5) / 10,
    top_k: 20 + i,
    top_p: 0.95,
    seed: 1000 + i,
    ...(i % 3 === 0 && { repetition_penalty: 1.2 }),
    ...(i % 4 === 0 && { frequency_penalty: 0.5, presence_penalty: 0.2 }),
    ...(i % 5 === 0 && { logit_bias: { '7': 4, '9': -100 } }),
    ...(i % 2 === 0 && { min_p: 0.02 }),
  };
}

async function play(
  engine: Engine,
  job: Job,
  { delay, abortAt, priority }: { delay: number; abortAt: number; priority: number },
): Promise<Outcome> {
  for (let k = 0; k < delay; k++) await new Promise((resolve) => setImmediate(resolve));
  const { id, prompt, maxTokens, params, adapter } = job;
  const stream = engine.submit({ id, prompt, maxTokens, priority, params, adapter, ignoreEos: true });
  const got: number[] = [];
  try {
    for await (const { tokens } of stream) {
      got.push(...tokens);
      if (abortAt === 0 || got.length < abortAt) continue;
      stream.abort();
      break;
    }
    const result = await stream.result().catch(() => null);
    return {
      ...job,
      tokens: got,
      aborted: abortAt > 0,
      error: null,
      preemptions: result?.numPreemptions ?? 0,
      cached: result?.numCachedTokens ?? 0,
    };
  } catch (error) {
    return { ...job, tokens: got, aborted: false, error, preemptions: 0, cached: 0 };
  }
}

async function compare(
  { id, prompt, maxTokens, params, adapter, tokens, aborted, error, preemptions, cached }: Outcome,
  alone: Alone,
  { nearness }: NumberType,
  figures: RunFigures,
  seed: number,
): Promise<void> {
  figures.preemptions += preemptions;
  figures.cachedTokens += cached;
  if (aborted) figures.aborted++;
  const say = (what: string): void => {
    if (figures.reports.length < 4) figures.reports.push(`seed ${seed}, ${id}: ${what}`);
  };
  if (error !== null) {
    figures.errors++;
    const { message, cause } = error as Error;
    say(`${message} ${cause === undefined ? '' : (cause as Error).message}`);
  } else if (!aborted && tokens.length !== maxTokens) {
    figures.wrong++;
    say(`${tokens.length} tokens, expected ${maxTokens}`);
    return;
  }
  // Also of a request that failed every token that came before must be right.
  const text = await alone.answer(prompt, tokens.length, params, { adapter });
  figures.compared += tokens.length;
  const parted = tokens.findIndex((token, k) => token !== text.tokens[k]);
  if (parted < 0) return;
  const gap = text.gaps[parted];
  if (gap < nearness) {
    figures.near++;
    figures.largestGap = Math.max(figures.largestGap, gap);
    return;
  }
  figures.wrong++;
  say(
    `token ${parted} of ${tokens.length} is ${tokens[parted]}, expected ${text.tokens[parted]}, gap ${gap}`,
  );
}
