// Executors whose blocks are copied, and arenas that blocks are saved in.
import { Engine } from '../../../../src/engine/engine.js';
import type { LlamaKv } from '../../../../src/executors/llama-cpp/kv/llama-kv.js';
import { LlamaExecutor } from '../../../../src/executors/llama-cpp/llama-executor.js';
import type { LlamaExecutorOptions } from '../../../../src/executors/llama-cpp/llama-options.js';
import { BlockArena } from '../../../../src/transfer/block-arena.js';
import { CompletionQueue } from '../../../../src/transfer/completion-queue.js';
import type { Lane } from '../../../../src/transfer/lane.js';
import { Verdict } from '../../../../src/transfer/verdict.js';

/** Three blocks and a bit of 16 tokens. */
export const PROMPT = Int32Array.from({ length: 50 }, (_, i) => 5 + ((i * 13) % 300));
/** The blocks that the first request of an engine gets. */
export const BLOCKS = Int32Array.of(1, 2, 3);
export const PLACES = Int32Array.of(0, 1, 2);

/** An executor whose blocks can be copied. */
export function executorFor(options: Pick<LlamaExecutorOptions, 'model'> & Partial<LlamaExecutorOptions>) {
  return LlamaExecutor.create({
    ...{ numBlocks: 33, maxNumSeqs: 4, maxNumBatchedTokens: 64, threads: 1, kvTransfer: true },
    ...{ cacheType: 'f32', flashAttention: 'off' },
    ...options,
  });
}

/** Computes the prompt in an engine that ends. The executor goes on. */
export async function compute(executor: LlamaExecutor, prompt = PROMPT, maxTokens = 4): Promise<number[]> {
  const { numBlocks } = executor.limits;
  const borrowed = new Proxy(executor, {
    get: (target, name) => {
      if (name === 'dispose') return undefined;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  const engine = new Engine({ numBlocks, executor: borrowed });
  engine.run();
  const { tokens } = await engine.submit({ prompt, maxTokens, ignoreEos: true }).result();
  await engine.shutdown();
  return [...tokens];
}

/** An arena for saved blocks, with its lanes. */
export class Saved {
  readonly queue = new CompletionQueue();
  readonly arena: BlockArena;
  readonly out: Lane;
  readonly back: Lane;

  constructor(kv: LlamaKv, numBlocks = 8) {
    this.arena = BlockArena.allocate({ numBlocks, bytesPerBlock: kv.bytesPerBlock });
    this.out = kv.laneTo(this.queue, this.arena);
    this.back = kv.laneFrom(this.queue, this.arena);
  }

  save(blocks = BLOCKS, places = PLACES): Promise<Verdict> {
    return this.end(this.out.submit(blocks, places));
  }

  load(places = PLACES, blocks = BLOCKS): Promise<Verdict> {
    return this.end(this.back.submit(places, blocks));
  }

  /** Waits for the end of a job, the only one under way. */
  async end(job: number): Promise<Verdict> {
    let found: Verdict | null = null;
    while (found === null) {
      this.queue.drain((ended, verdict) => {
        if (ended === job) found = verdict;
      });
      if (found === null) await new Promise((resolve) => setImmediate(resolve));
    }
    return found;
  }

  dispose(): void {
    this.out.dispose();
    this.back.dispose();
    this.queue.dispose();
    this.arena.dispose();
  }
}

export const nameOf = (verdict: Verdict): string | undefined =>
  Object.entries(Verdict).find(([, value]) => value === verdict)?.[0];
