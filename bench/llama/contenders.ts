// Blockstep and node-llama-cpp, made ready for a workload.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Random } from '../../src/base/random.js';
import { Engine } from '../../src/engine/engine.js';
import { LlamaExecutor } from '../../src/executors/llama-cpp/llama-executor.js';
import { openLlamaModel } from '../../src/executors/llama-cpp/model/llama-model.js';
import type { Job } from './workloads.js';

/** A program that runs workloads. */
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

/** The settings that all contenders have in common. */
export interface Setting {
  readonly numSequences: number;
  readonly threads: number;
  /** Most tokens of a text. */
  readonly longest: number;
}

const BLOCK = 16;
/** Tokens of a prompt that fills the cache. */
const FILLING = 1024;

/** Options of one of our contenders. */
export interface OurOptions {
  /** Share of the memory that all sequences of the longest text need. */
  readonly pool: number;
  /** Tokens that the pool has room for beside that. */
  readonly room: number;
  /** Tokens of unlike prompts that the prefix cache holds when a workload begins. */
  readonly cached: number;
  readonly attention: 'auto' | 'llama';
}

/** Blockstep. */
export async function ours(
  name: string,
  path: string,
  libraryFolder: string,
  { pool, cached, room, attention }: OurOptions,
): Promise<Contender> {
  const model = await openLlamaModel({ path, libraryFolder, variant: 'cpu', attention });
  return {
    name,
    prepare: async ({ numSequences, threads, longest }) => {
      const needed = Math.max(1, pool * numSequences) * longest;
      const numBlocks = 1 + Math.ceil((needed + room) / BLOCK);
      const executor = await LlamaExecutor.create({
        model,
        numBlocks,
        maxNumSeqs: numSequences,
        maxModelLen: Math.max(longest, cached > 0 ? FILLING : 0),
        flashAttention: 'on',
        threads,
      });
      const engine = new Engine({ numBlocks, executor, enablePrefixCaching: true });
      engine.run();
      const compute = async ({ prompt, out }: Job, first: () => void): Promise<void> => {
        let told = false;
        for await (const _ of engine.submit({ prompt, maxTokens: out, ignoreEos: true })) {
          if (!told) first();
          told = true;
        }
      };
      const random = new Random(9);
      for (let k = 0; k < cached; k += FILLING) {
        const prompt = Array.from({ length: FILLING - 1 }, () => 300 + random.below(3000));
        await compute({ prompt, out: 1 }, () => {});
      }
      return {
        cpu: ownProcessorTime,
        run: async (jobs, first) => {
          await Promise.all(jobs.map((job) => compute(job, first)));
        },
        end: () => engine.shutdown(),
      };
    },
  };
}

function ownProcessorTime(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** The parts of node-llama-cpp that are used, because it is no dependency. */
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
      const sequences = Array.from({ length: numSequences }, () => context.getSequence());
      return {
        cpu: ownProcessorTime,
        run: async (jobs, first) => {
          const queue = [...jobs];
          const work = async (sequence: NodeLlamaSequence): Promise<void> => {
            for (let job = queue.shift(); job !== undefined; job = queue.shift())
              await answer(sequence, job, keepsState, first);
          };
          await Promise.all(sequences.map(work));
        },
        end: () => context.dispose(),
      };
    },
  });
  return [make(THEIRS[0], false), make(THEIRS[1], true)];
}

/** The names of the contenders of node-llama-cpp. */
export const THEIRS = ['node-llama-cpp', 'node-llama-cpp, prefix state'] as const;

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
