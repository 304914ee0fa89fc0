// LoRA adapters: the texts of a model with the adapter merged into its weights.
import { afterAll, describe, expect, it } from 'vitest';
import { Engine } from '../../../src/engine/engine.js';
import { LlamaExecutor } from '../../../src/executors/llama-cpp/llama-executor.js';
import { type LlamaModel, openLlamaModel } from '../../../src/executors/llama-cpp/model/llama-model.js';
import { merged, type RandomLora, writeRandomLora } from '../../support/gguf/random-lora.js';
import { type RandomModel, writeRandomModel } from '../../support/gguf/random-model.js';
import { useTempFiles } from '../../support/temp-file.js';
import { hasLlama, libraryFolder } from './use-llama.js';

const PROMPTS = [3, 7, 11, 40].map((first) =>
  Array.from({ length: 24 }, (_, i) => 5 + ((first * (i + 1)) % 300)),
);

describe.skipIf(!hasLlama)('LoRA adapters over llama.cpp', () => {
  const write = useTempFiles();
  const opened: { dispose(): void }[] = [];
  const engines: Engine[] = [];
  afterAll(async () => {
    for (const engine of engines) await engine.shutdown({ drainMs: 0 });
    for (const each of opened) each.dispose();
  });
  let numFiles = 0;

  async function open(
    written: RandomModel,
    adapters: Readonly<Record<string, RandomLora>> = {},
  ): Promise<LlamaModel> {
    const path = write(`${numFiles++}.gguf`, '');
    writeRandomModel(path, written);
    const loras: Record<string, string> = {};
    for (const [name, lora] of Object.entries(adapters)) {
      loras[name] = write(`${numFiles++}.lora`, '');
      writeRandomLora(loras[name], lora, written);
    }
    const model = await openLlamaModel({ path, loras, libraryFolder: libraryFolder(), variant: 'cpu' });
    opened.push(model);
    return model;
  }

  async function run(model: LlamaModel): Promise<Engine> {
    const executor = await LlamaExecutor.create({
      model,
      numBlocks: 128,
      maxModelLen: 256,
      cacheType: 'f32',
      flashAttention: 'off',
      threads: 1,
    });
    const engine = new Engine({
      numBlocks: 128,
      executor,
      enablePrefixCaching: executor.limits.canRollBack,
    });
    engines.push(engine);
    engine.run();
    return engine;
  }

  const textsOf = (engine: Engine, adapter?: string): Promise<number[][]> =>
    Promise.all(
      PROMPTS.map(async (prompt) => {
        const all: number[] = [];
        const stream = engine.submit({
          prompt,
          maxTokens: 16,
          ignoreEos: true,
          ...(adapter !== undefined && { adapter }),
        });
        for await (const { tokens } of stream) all.push(...tokens);
        return all;
      }),
    );

  it.each([
    ['attention', {}],
    ['states', { architecture: 'mamba' }],
    ['a sliding window', { architecture: 'gemma3', window: 16 }],
  ] as const)(
    'give the texts of a model with the adapter merged into its weights: with %s',
    async (_, written) => {
      const first = { seed: 1 };
      const second = { seed: 2, rank: 8, alpha: 3 };
      const engine = await run(await open(written, { first, second }));
      // At once, so that the calls of one step have several adapters.
      const [plain, ofFirst, ofSecond] = await Promise.all([
        textsOf(engine),
        textsOf(engine, 'first'),
        textsOf(engine, 'second'),
      ]);
      expect(plain).toEqual(await textsOf(await run(await open(written))));
      expect(ofFirst).toEqual(await textsOf(await run(await open({ ...written, change: merged(first) }))));
      expect(ofSecond).toEqual(await textsOf(await run(await open({ ...written, change: merged(second) }))));
      expect(new Set([plain, ofFirst, ofSecond].map((texts) => JSON.stringify(texts))).size).toBe(3);
    },
  );

  it('share no KV with each other, and share it among requests of one adapter', async () => {
    const engine = await run(await open({}, { first: {}, second: { seed: 2 } }));
    const cachedOf = async (adapter: string): Promise<number> => {
      const stream = engine.submit({ prompt: PROMPTS[0], maxTokens: 1, adapter });
      return (await stream.result()).numCachedTokens;
    };
    const cached: number[] = [];
    for (const adapter of ['', 'first', 'second', 'first', 'second', ''])
      cached.push(await cachedOf(adapter));
    expect(cached).toEqual([0, 0, 0, 16, 16, 16]);
  });

  it('are refused by a name that the operator did not give', async () => {
    const model = await open({}, { first: {} });
    expect(model.info.loras).toEqual(['first']);
    const engine = await run(model);
    expect(() => engine.submit({ prompt: [5], maxTokens: 1, adapter: '../first' })).toThrow(
      /adapter must be an adapter of the model: first, got "\.\.\/first"/,
    );
    const plain = await run(await open({}));
    expect(() => plain.submit({ prompt: [5], maxTokens: 1, adapter: 'first' })).toThrow(
      /adapter must be absent: the model has no adapters, got "first"/,
    );
  });

  it.each([
    [['a.gguf'], /loras must be an object of paths by name/],
    [{ '': 'a.gguf' }, /the name of an adapter must be/],
    [{ first: 1 }, /loras\["first"\] must be the path of a GGUF file, got 1/],
    [{ first: '/nothing.gguf' }, /the adapter "first": the model \/nothing\.gguf does not exist/],
  ])('have names and paths: %j is refused', async (loras, message) => {
    const path = write('model.gguf', '');
    writeRandomModel(path);
    await expect(
      openLlamaModel({ path, loras: loras as never, libraryFolder: libraryFolder() }),
    ).rejects.toThrow(message);
  });
});
