import { afterAll } from 'vitest';
import { Engine } from '../../../src/engine/engine.js';
import type { EngineOptions } from '../../../src/engine/state/options.js';
import { LlamaExecutor } from '../../../src/executors/llama-cpp/llama-executor.js';
import type { LlamaExecutorOptions } from '../../../src/executors/llama-cpp/llama-options.js';
import { type LlamaModel, openLlamaModel } from '../../../src/executors/llama-cpp/model/llama-model.js';
import { type RandomModel, writeRandomModel } from '../../support/gguf/random-model.js';
import { llamaForTests } from '../../support/llama/library.js';
import { useTempFiles } from '../../support/temp-file.js';

/** Options of an executor for tests, beside its model. */
type ExecutorOptions = Partial<Omit<LlamaExecutorOptions, 'model'>>;

/** Models of random weights for a suite, and engines over them; all of them end with the suite. */
export function useLlama(): {
  path: (written?: RandomModel) => string;
  model: (written?: RandomModel) => Promise<LlamaModel>;
  engine: (
    model: LlamaModel,
    options?: ExecutorOptions,
    engine?: Partial<EngineOptions>,
  ) => Promise<{ engine: Engine; executor: LlamaExecutor }>;
} {
  const write = useTempFiles();
  const models = new Map<string, LlamaModel>();
  const engines: Engine[] = [];
  let numFiles = 0;
  afterAll(async () => {
    for (const engine of engines) await engine.shutdown({ drainMs: 0 });
    for (const model of models.values()) model.dispose();
  });
  const path = (written: RandomModel = {}): string => {
    const file = write(`${numFiles++}.gguf`, '');
    writeRandomModel(file, written);
    return file;
  };
  return {
    path,
    model: async (written = {}) => {
      const name = JSON.stringify(written);
      const known = models.get(name);
      if (known !== undefined) return known;
      const model = await openLlamaModel({ path: path(written), libraryFolder: libraryFolder() });
      models.set(name, model);
      return model;
    },
    engine: async (model, options = {}, engineOptions = {}) => {
      const executor = await LlamaExecutor.create({
        model,
        numBlocks: 64,
        maxNumSeqs: 8,
        maxNumBatchedTokens: 64,
        cacheType: 'f32',
        flashAttention: 'off',
        threads: 1,
        ...options,
      });
      const engine = new Engine({ ...engineOptions, numBlocks: executor.limits.numBlocks, executor });
      engines.push(engine);
      engine.run();
      return { engine, executor };
    },
  };
}

/** The folder of llama.cpp's libraries. */
export function libraryFolder(): string {
  const { folder, reason } = llamaForTests();
  if (folder === null) throw new Error(reason);
  return folder;
}

/** Whether there is llama.cpp for these tests. */
export const hasLlama = llamaForTests().folder !== null;

/** A text's bytes. */
export function textOf(model: LlamaModel, tokens: Iterable<number>): string {
  const pieces = [...tokens].filter((token) => !model.info.endTokens.includes(token));
  return Buffer.concat(pieces.map((token) => model.piece(token))).toString('utf8');
}
