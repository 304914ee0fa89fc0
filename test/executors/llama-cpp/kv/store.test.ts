// A shared store over the cache of llama.cpp: a second engine loads what the first one computed.
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { StoreConnector, StoreWorker } from '../../../../src/connectors/store/index.js';
import { Engine } from '../../../../src/engine/engine.js';
import type { LlamaExecutorOptions } from '../../../../src/executors/llama-cpp/llama-options.js';
import { temporaryFolder } from '../../../support/temp-file.js';
import { threadsEnded } from '../../../support/threads.js';
import { hasLlama, useLlama } from '../use-llama.js';
import { executorFor, PROMPT } from './saved-blocks.js';

/** Without a stopped clock, a busy machine would give up the store, and compute. */
const PATIENCE = { timeoutMs: 120_000, now: () => 0 };

/** An engine over llama.cpp whose blocks go into a store. */
async function serve(path: string, options: Pick<LlamaExecutorOptions, 'model'>) {
  const executor = await executorFor(options);
  const { origin, bytesPerBlock } = executor.kv;
  const store = { path, maxBytes: 2 ** 24 };
  const connector = new StoreConnector({
    ...{ store, lookupBudgetMs: 100_000, storeEvery: 1, ...PATIENCE },
    format: { model: origin, layout: 'llama.cpp', dtype: 'f32', bytesPerBlock },
  });
  const worker = new StoreWorker({ memory: executor, store, ...PATIENCE });
  const engine = new Engine({
    ...{ numBlocks: executor.limits.numBlocks, executor, connector, workers: [worker] },
    loadFailurePolicy: 'recompute',
  });
  engine.run();
  const text = async (prompt: Int32Array) => {
    const result = await engine.submit({ prompt, maxTokens: 8, ignoreEos: true }).result();
    return { tokens: [...result.tokens], cached: result.numCachedTokens };
  };
  return { engine, executor, connector, worker, text };
}

describe.skipIf(!hasLlama)('a store over llama.cpp', () => {
  const use = useLlama();

  it('gives a second engine the prefix, with the tokens of the first', async () => {
    const path = join(temporaryFolder(), 'kv.slots');
    const model = await use.model();
    const first = await serve(path, { model });
    const expected = await first.text(PROMPT);
    expect(expected.cached).toBe(0);
    // A step takes the reports of the worker, so later requests are needed.
    for (let i = 0; first.worker.stats().store.stored < 3; i++)
      await first.text(Int32Array.of(20 + (i % 300), 2, 3));
    await first.engine.shutdown();
    await threadsEnded();

    const second = await serve(path, { model });
    expect(await second.text(PROMPT)).toEqual({ tokens: expected.tokens, cached: 48 });
    expect(second.connector.stats()).toMatchObject({ loadedBlocks: 3 });
    expect(second.executor.kv.stats()).toMatchObject({ loaded: 3 });
    await second.engine.shutdown();
    await threadsEnded();
  });
});
