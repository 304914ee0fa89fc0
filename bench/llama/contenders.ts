import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Engine } from '../../src/engine/engine.js';
import { LlamaExecutor } from '../../src/executors/llama-cpp/llama-executor.js';
import { openLlamaModel } from '../../src/executors/llama-cpp/model/llama-model.js';
import type { Job } from './workloads.js';

/** What runs workloads. */
export interface Contender {
  readonly name: string;
  /** Makes it ready, which is not measured. Each run has one of its own, so that none finds what the run before has left. */
  prepare(setting: Setting): Promise<Prepared>;
}

/** A contender that is ready for one run. */
export interface Prepared {
  /** Milliseconds of processor time that its process has had. */
  cpu(): number;
  /** Computes all jobs, and calls `first` when a job has its first token. */
  run(jobs: readonly Job[], first: () => void): Promise<void>;
  end(): Promise<void>;
}

/** What all contenders are given alike. */
export interface Setting {
  readonly numSequences: number;
  readonly threads: number;
  /** Most tokens of a text. */
  readonly longest: number;
}

const BLOCK = 16;

/**
 * Blockstep, with pools of several sizes.
 * @param pools shares of what all sequences of the longest text need
 */
export async function ours(
  path: string,
  libraryFolder: string,
  pools: readonly number[],
): Promise<Contender[]> {
  const model = await openLlamaModel({ path, libraryFolder, variant: 'cpu' });
  return pools.map((pool) => ({
    name: pool === 1 ? 'blockstep' : `blockstep, pool x ${pool}`,
    prepare: async ({ numSequences, threads, longest }) => {
      const numBlocks = 1 + Math.ceil((Math.max(1, pool * numSequences) * longest) / BLOCK);
      const executor = await LlamaExecutor.create({
        model,
        numBlocks,
        maxNumSeqs: numSequences,
        maxModelLen: longest,
        flashAttention: 'on',
        threads,
      });
      const engine = new Engine({ numBlocks, executor, enablePrefixCaching: true });
      engine.run();
      return {
        cpu: ownProcessorTime,
        run: async (jobs, first) => {
          await Promise.all(
            jobs.map(async ({ prompt, out }) => {
              let told = false;
              const stream = engine.submit({ prompt, maxTokens: out, ignoreEos: true });
              for await (const _ of stream) {
                if (!told) first();
                told = true;
              }
            }),
          );
        },
        end: () => engine.shutdown(),
      };
    },
  }));
}

function ownProcessorTime(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** What is used of node-llama-cpp, which is no dependency. */
interface NodeLlama {
  getLlama(options: object): Promise<{
    loadModel(options: object): Promise<{ createContext(options: object): Promise<NodeLlamaContext> }>;
  }>;
}
interface NodeLlamaContext {
  getSequence(): NodeLlamaSequence;
  dispose(): Promise<void>;
}
interface NodeLlamaSequence {
  readonly nextTokenIndex: number;
  adaptStateToTokens(tokens: readonly number[], allowShift: boolean): Promise<void>;
  eraseContextTokenRanges(ranges: readonly object[]): Promise<void>;
  clearHistory(): Promise<void>;
  evaluate(tokens: readonly number[], options: object): AsyncIterable<number>;
}

/** node-llama-cpp's own batching: each sequence takes one job after the other, with and without the state of the one before. */
export async function theirs(path: string, modules: string, threads: number): Promise<Contender[]> {
  const entry = pathToFileURL(join(modules, 'node-llama-cpp', 'dist', 'index.js')).href;
  const { getLlama } = (await import(entry)) as NodeLlama;
  const llama = await getLlama({
    gpu: false,
    build: 'never',
    progressLogs: false,
    logLevel: 'error',
    maxThreads: threads,
  });
  const model = await llama.loadModel({ modelPath: path });
  const make = (name: string, keepsState: boolean): Contender => ({
    name,
    prepare: async ({ numSequences, longest }) => {
      const context = await model.createContext({
        sequences: numSequences,
        contextSize: longest,
        batchSize: 512,
        threads,
        flashAttention: true,
      });
      return {
        cpu: ownProcessorTime,
        run: async (jobs, first) => {
          const queue = [...jobs];
          const work = async (sequence: NodeLlamaSequence): Promise<void> => {
            for (let job = queue.shift(); job !== undefined; job = queue.shift())
              await answer(sequence, job, keepsState, first);
          };
          await Promise.all(Array.from({ length: numSequences }, () => work(context.getSequence())));
        },
        end: () => context.dispose(),
      };
    },
  });
  return [make('node-llama-cpp', false), make('node-llama-cpp, prefix state', true)];
}

async function answer(
  sequence: NodeLlamaSequence,
  { prompt, out }: Job,
  keepsState: boolean,
  first: () => void,
): Promise<void> {
  let feed = prompt;
  if (keepsState) {
    await sequence.adaptStateToTokens(prompt, false);
    feed = prompt.slice(sequence.nextTokenIndex);
    if (feed.length === 0) {
      feed = prompt.slice(-1);
      await sequence.eraseContextTokenRanges([{ start: prompt.length - 1, end: prompt.length }]);
    }
  } else await sequence.clearHistory();
  let count = 0;
  for await (const _ of sequence.evaluate(feed, { temperature: 0, yieldEogToken: true })) {
    if (count === 0) first();
    if (++count >= out) break;
  }
}
