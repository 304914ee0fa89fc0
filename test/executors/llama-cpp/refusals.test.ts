// Files, options, pools, requests and versions that are refused.
import { copyFileSync, mkdirSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { Random } from '../../../src/base/random.js';
import { Engine } from '../../../src/engine/engine.js';
import { LlamaExecutor } from '../../../src/executors/llama-cpp/llama-executor.js';
import { openLlamaModel } from '../../../src/executors/llama-cpp/model/llama-model.js';
import { LLAMA_VERSIONS } from '../../../src/executors/llama-cpp/native/versions.js';
import { FakeGrammar } from '../../support/fake-grammar.js';
import { hasLlama, libraryFolder, useLlama } from './use-llama.js';

const error = (code: string, message: RegExp) =>
  expect.objectContaining({ code, message: expect.stringMatching(message) });

describe.skipIf(!hasLlama)('what is refused over llama.cpp', () => {
  const use = useLlama();
  const open = (path: string) => openLlamaModel({ path, libraryFolder: libraryFolder() });

  it('files that are missing, foreign, cut off or damaged', async () => {
    const path = use.path();
    const damaged = (name: string, change: (copy: string) => void): string => {
      const copy = join(dirname(path), name);
      copyFileSync(path, copy);
      change(copy);
      return copy;
    };
    const bad = (message: RegExp) => error('ERR_BLOCKSTEP_BAD_MODEL', message);
    await expect(open(join(dirname(path), 'none.gguf'))).rejects.toEqual(bad(/does not exist/));
    await expect(open(damaged('text.gguf', (copy) => writeFileSync(copy, 'hello')))).rejects.toEqual(
      bad(/text.gguf/),
    );
    await expect(open(damaged('cut.gguf', (copy) => truncateSync(copy, 100_000)))).rejects.toEqual(
      bad(/cut.gguf/),
    );
    const renamed = damaged('renamed.gguf', (copy) => {
      const bytes = readFileSync(copy);
      bytes.write('blk.0.attn_x', bytes.indexOf('blk.0.attn_q'));
      writeFileSync(copy, bytes);
    });
    // A model with a fault that llama.cpp alone notices.
    await expect(open(renamed)).rejects.toEqual(bad(/cannot be loaded: .*attn_q/));
    // A model with a fault that nobody notices before a text needs it: the token of a byte is
    // another one.
    const pieces = use.path({ vocabulary: 'llama' });
    const bytes = readFileSync(pieces);
    bytes.write('<0x?1>', bytes.indexOf('<0x41>'));
    writeFileSync(pieces, bytes);
    const model = await open(pieces);
    expect(() => model.tokenize('A')).toThrow(bad(/has a vocabulary that cannot write the text: /));
    model.dispose();
  });

  it('options, before anything is loaded', async () => {
    const bad = (message: RegExp) => error('ERR_BLOCKSTEP_BAD_ARG', message);
    await expect(openLlamaModel({ path: '' })).rejects.toEqual(bad(/path/));
    await expect(openLlamaModel({ path: 'x', variant: 'tpu' as never })).rejects.toEqual(bad(/variant/));
    await expect(openLlamaModel({ path: 'x', layers: 3 } as never)).rejects.toEqual(bad(/layers/));
    const model = await use.model();
    const create = (options: object) => LlamaExecutor.create({ model, numBlocks: 64, ...options });
    await expect(create({ numBlocks: 1 })).rejects.toEqual(bad(/numBlocks/));
    await expect(create({ maxModelLen: 4097 })).rejects.toEqual(bad(/maxModelLen .* 1 to 4096, got 4097/));
    await expect(create({ contextShift: true })).rejects.toEqual(bad(/contextShift.*texts share their KV/));
    await expect(create({ loras: {} })).rejects.toEqual(bad(/loras.*it belongs to openLlamaModel/));
    await expect(create({ maxNumSeqs: 257 })).rejects.toEqual(bad(/maxNumSeqs/));
    await expect(create({ cacheType: 'q8_0', flashAttention: 'off' })).rejects.toEqual(bad(/flashAttention/));
    await expect(create({ model: {} })).rejects.toEqual(bad(/model must be a LlamaModel/));
    const states = await use.model({ architecture: 'mamba' });
    await expect(create({ model: states, numSpeculativeTokens: 2 })).rejects.toEqual(
      bad(/numSpeculativeTokens/),
    );
  });

  it('a GPU where llama.cpp finds none', async () => {
    const bad = (message: RegExp) => error('ERR_BLOCKSTEP_BAD_ARG', message);
    const options = { path: use.path(), libraryFolder: libraryFolder() };
    await expect(openLlamaModel({ ...options, gpuLayers: 3 })).rejects.toEqual(
      bad(/gpuLayers must be absent or 0, since llama\.cpp finds no GPU; .*, got 3/),
    );
    await expect(openLlamaModel({ ...options, variant: 'cuda' })).rejects.toEqual(
      bad(/variant must be auto or cpu, since llama\.cpp finds no GPU.*, got "cuda"/),
    );
    (await openLlamaModel({ ...options, variant: 'cuda', gpuLayers: 0 })).dispose();
  });

  it('a token where the logits are no numbers, each request by itself', async () => {
    const path = use.path();
    const bytes = readFileSync(path);
    // Weights of the last layer.
    for (let at = bytes.length - 4096; at < bytes.length; at += 4) bytes.writeFloatLE(Number.NaN, at);
    writeFileSync(path, bytes);
    await expect(
      openLlamaModel({ path, libraryFolder: libraryFolder(), checkTensors: true }),
    ).rejects.toEqual(error('ERR_BLOCKSTEP_BAD_MODEL', /cannot be loaded: .*blk\.3\S+ has invalid data/));
    const model = await open(path);
    const { engine } = await use.engine(model);
    const grammar = model.grammar({ gbnf: 'root ::= [a-z]' });
    for (const how of [{}, { params: { temperature: 1 } }, { params: { logprobs: 2 } }, { grammar }]) {
      const ended = engine.submit({ prompt: [5, 6], maxTokens: 4, ...how }).result();
      await expect(ended).rejects.toEqual(error('ERR_BLOCKSTEP_EXECUTOR', /with error 3$/));
    }
    model.dispose();
  });

  it.each(['F32', 'Q8_0'] as const)(
    'nothing but requests where all weights are random bytes: %s',
    async (weights) => {
      const path = use.path({ weights });
      const bytes = readFileSync(path);
      const random = new Random(3);
      // The header stays: three quarters of such a file are weights.
      for (let at = Math.floor(bytes.length / 4); at < bytes.length; at++) bytes[at] = random.below(256);
      writeFileSync(path, bytes);
      const model = await open(path);
      for (const flashAttention of ['on', 'off'] as const) {
        const { engine } = await use.engine(model, { flashAttention, cacheType: 'f16' });
        const prompt = Array.from({ length: 100 }, (_, k) => 10 + k);
        const ends = [{}, { temperature: 1 }, { logprobs: 2 }].map((params) =>
          engine.submit({ prompt, maxTokens: 20, params, ignoreEos: true }).result(),
        );
        for (const { status, ...rest } of await Promise.allSettled(ends))
          if (status === 'rejected')
            expect(rest).toEqual({ reason: error('ERR_BLOCKSTEP_EXECUTOR', /with error 3$/) });
      }
      model.dispose();
    },
  );

  it('a pool that does not fit into memory, with what would', async () => {
    const model = await use.model();
    const message = /needs .* GiB of KV cache .* are free: \d+ blocks would fit/;
    await expect(LlamaExecutor.create({ model, numBlocks: 2 ** 24 })).rejects.toEqual(
      error('ERR_BLOCKSTEP_NO_MEMORY', message),
    );
  });

  it('weights that are to be read into memory and do not fit', async () => {
    const path = use.path();
    const free = vi.spyOn(process, 'availableMemory').mockReturnValue(2 ** 18);
    onTestFinished(() => free.mockRestore());
    const told: number[] = [];
    const options = { path, libraryFolder: libraryFolder(), onProgress: (share: number) => told.push(share) };
    await expect(openLlamaModel({ ...options, memoryMap: false })).rejects.toEqual(
      error('ERR_BLOCKSTEP_NO_MEMORY', /has 0\.9 MiB of weights, and 0\.3 MiB are free: take one with fewer/),
    );
    expect(told).toEqual([]);
    // Mapped ones are loaded as far as there is room.
    (await openLlamaModel(options)).dispose();
  });

  it('what a recurrent model cannot do, by the engine', async () => {
    const executor = await LlamaExecutor.create({
      model: await use.model({ architecture: 'lfm2' }),
      numBlocks: 64,
    });
    const bad = error('ERR_BLOCKSTEP_BAD_ARG', /since the executor cannot roll back/);
    expect(() => new Engine({ numBlocks: 64, executor, enablePrefixCaching: true })).toThrow(bad);
    executor.dispose();
  });

  it('tokens outside the vocabulary and parameters that cannot be read, at submit', async () => {
    const model = await use.model();
    const { engine } = await use.engine(model);
    const submit = (input: object) => () => engine.submit({ prompt: [5], maxTokens: 2, ...input });
    const bad = (message: RegExp) => error('ERR_BLOCKSTEP_BAD_ARG', message);
    expect(submit({ prompt: [5, 384] })).toThrow(bad(/prompt\[1\] .* from 0 to 383, got 384/));
    expect(submit({ params: { temperature: 3 } })).toThrow(bad(/params.temperature/));
    expect(submit({ params: { temprature: 1 } })).toThrow(bad(/temprature/));
    expect(submit({ params: { logit_bias: { 384: 1 } } })).toThrow(bad(/logit_bias/));
    expect(submit({ params: { logprobs: 21 } })).toThrow(bad(/logprobs/));
    expect(submit({ params: { repetition_penalty: 0 } })).toThrow(bad(/repetition_penalty/));
    expect(submit({ adapter: 'mine' })).toThrow(bad(/adapter/));
    expect(submit({ grammar: new FakeGrammar() })).toThrow(bad(/grammar/));
    expect((await submit({})().result()).tokens).toHaveLength(2);
  });

  it('another version of llama.cpp, with what to install', async () => {
    const folder = join(dirname(use.path()), 'libraries');
    mkdirSync(folder);
    const [{ packages, release }] = LLAMA_VERSIONS;
    const refused = error(
      'ERR_BLOCKSTEP_NO_PACKAGE',
      new RegExp(`llama.cpp ${release}: npm install \\S+@${packages}`),
    );
    await expect(openLlamaModel({ path: use.path(), libraryFolder: folder })).rejects.toEqual(refused);
    // The same libraries elsewhere: a process has one copy.
    for (const name of readdirSync(libraryFolder()))
      copyFileSync(join(libraryFolder(), name), join(folder, name));
    await use.model();
    await expect(openLlamaModel({ path: use.path(), libraryFolder: folder })).rejects.toEqual(refused);
  });

  it('a loading that its signal ends, and tells how far loading is', async () => {
    const path = use.path();
    const controller = new AbortController();
    controller.abort(new Error('no more'));
    await expect(
      openLlamaModel({ path, libraryFolder: libraryFolder(), signal: controller.signal }),
    ).rejects.toThrow('no more');
    const told: number[] = [];
    const model = await openLlamaModel({
      path,
      libraryFolder: libraryFolder(),
      onProgress: (share) => told.push(share),
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(told.at(-1)).toBe(1);
    expect(told).toEqual([...told].sort((a, b) => a - b));
    model.dispose();
    model.dispose();
    expect(() => model.tokenize('a')).toThrow(error('ERR_BLOCKSTEP_DISPOSED', /model/));
  });
});
