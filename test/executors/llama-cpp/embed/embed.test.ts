// Vectors and scores of texts, in batches, equal those of llama.cpp alone; refusals; ends.
import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Random } from '../../../../src/base/random.js';
import { Engine } from '../../../../src/engine/engine.js';
import {
  LlamaEmbedder,
  type LlamaEmbedderOptions,
} from '../../../../src/executors/llama-cpp/llama-embedder.js';
import { LlamaExecutor } from '../../../../src/executors/llama-cpp/llama-executor.js';
import { LlamaModel, openLlamaModel } from '../../../../src/executors/llama-cpp/model/llama-model.js';
import type { RandomModel } from '../../../support/gguf/random-model.js';
import { hasLlama, libraryFolder, useLlama } from '../use-llama.js';

const MEAN = 1;
const FIRST = 2;
const LAST = 3;
const RANK = 4;
const SMALL = { contextLength: 256 };
/**
 * Numbers of 32 bits alone: then the vector of a text does not depend on the rest of the batch,
 * except in the last bits.
 */
const EXACT = { flashAttention: 'off', cacheType: 'f32' } as const;
/** BERT's activation is looked up by numbers of 16 bits (ggml's table of GELU), where the last bits of a sum count. */
const CLOSE = { llama: 1e-4, bert: 2e-3 };

describe.skipIf(!hasLlama)('vectors of texts by llama.cpp', () => {
  const use = useLlama();

  /** An engine over an embedder, until the test ends. */
  async function open(written: RandomModel, options: Partial<LlamaEmbedderOptions> = {}) {
    const model = await use.model({ ...SMALL, ...written });
    const executor = await LlamaEmbedder.create({ model, threads: 1, ...EXACT, ...options });
    const engine = new Engine({ numBlocks: 4, executor });
    onTestFinished(() => engine.dispose());
    return { model, executor, engine };
  }

  /** The vector of one text by llama.cpp alone: one call, one sequence. */
  async function alone(model: LlamaModel, text: Int32Array, pooling: number): Promise<Float32Array> {
    const native = await LlamaModel.nativeOf(model).native.createEmbedder({
      batch: text.length,
      sequences: 1,
      threads: 1,
      pooling,
      typeK: 0,
      typeV: 0,
      flashAttention: 0,
      onGpu: false,
    });
    try {
      return await native.embed(text, Int32Array.of(text.length));
    } finally {
      native.dispose();
    }
  }

  /** Texts of random tokens, of lengths that do and do not share a call. */
  function texts(model: LlamaModel, count: number, most: number, seed = 1): Int32Array[] {
    const random = new Random(seed);
    return Array.from({ length: count }, (_, i) =>
      Int32Array.from({ length: i === 0 ? most : 1 + random.below(most) }, () =>
        random.below(model.info.vocabSize),
      ),
    );
  }

  const product = (a: Float32Array, b: Float32Array) => a.reduce((sum, each, i) => sum + each * b[i], 0);
  const unit = (a: Float32Array) => a.map((each) => each / Math.sqrt(product(a, a)));

  it.each<[string, RandomModel, number]>([
    ['the mean of both directions', { architecture: 'bert', pooling: MEAN }, MEAN],
    ['the first token of both directions', { architecture: 'bert', pooling: FIRST }, FIRST],
    ['the last token of one direction', { pooling: LAST }, LAST],
    ['the mean of a sliding window', { architecture: 'gemma3', pooling: MEAN }, MEAN],
    ['scores', { architecture: 'bert', pooling: RANK }, RANK],
  ])('are those of llama.cpp alone, in batches of many texts: %s', async (_what, written, pooling) => {
    const { model, engine, executor } = await open(written, { maxNumSeqs: 5, maxModelLen: 200 });
    const many = texts(model, 24, 200);
    // Several clients at once, so that a call has texts of more than one.
    const [some, others] = await Promise.all([
      engine.embed(many.slice(0, 11), { normalize: false }),
      engine.embed(many.slice(11), { normalize: false }),
    ]);
    const vectors = [...some, ...others];
    expect([executor.kind, executor.dimensions]).toEqual(
      pooling === RANK ? ['scores', 1] : ['embeddings', 64],
    );
    const seen = new Set<string>();
    for (const [i, text] of many.entries()) {
      const expected = await alone(model, text, pooling);
      expect(vectors[i].length).toBe(executor.dimensions);
      for (const [at, value] of expected.entries())
        expect(Math.abs(vectors[i][at] - value)).toBeLessThan(
          written.architecture === 'bert' ? CLOSE.bert : CLOSE.llama,
        );
      seen.add(expected.join());
    }
    // With numbers of 16 bits, the default of the embedder, the directions are nearly the same.
    if (pooling !== RANK) {
      const usual = await open(written, {
        maxNumSeqs: 5,
        maxModelLen: 200,
        flashAttention: 'auto',
        cacheType: 'f16',
      });
      const near = await usual.engine.embed(many);
      for (const [i, vector] of near.entries())
        expect(product(vector, unit(vectors[i]))).toBeGreaterThan(0.999);
    }
    // The comparison says something: no two texts have one vector.
    expect(seen.size).toBe(many.length);
  });

  it('depend on every token of a text, and on no other text', async () => {
    const { model, engine } = await open({ architecture: 'bert', pooling: MEAN });
    const [text] = texts(model, 1, 40);
    const [whole] = await engine.embed([text]);
    for (const at of [0, 17, 39]) {
      const other = Int32Array.from(text);
      other[at] = (other[at] + 1) % model.info.vocabSize;
      const [changed, again] = await engine.embed([other, text]);
      expect(changed).not.toEqual(whole);
      for (const [i, value] of whole.entries()) expect(again[i]).toBeCloseTo(value, 4);
    }
  });

  it('have the length 1, also with fewer dimensions; their directions are the model’s own', async () => {
    const { model, engine } = await open({ pooling: LAST });
    const [text] = texts(model, 1, 30);
    const [[raw], [whole], [cut]] = await Promise.all([
      engine.embed([text], { normalize: false }),
      engine.embed([text]),
      engine.embed([text], { dimensions: 8 }),
    ]);
    const length = (vector: Iterable<number>) => Math.hypot(...vector);
    expect(length(whole)).toBeCloseTo(1, 5);
    expect([length(cut), cut.length]).toEqual([expect.closeTo(1, 5), 8]);
    expect(length(raw)).not.toBeCloseTo(1, 1);
    for (let i = 0; i < 8; i++) expect(cut[i]).toBeCloseTo(raw[i] / length(raw.subarray(0, 8)), 5);
    expect(await engine.embed([])).toEqual([]);
  });

  it('are refused for what cannot have one, and nothing is computed', async () => {
    const { model, engine } = await open({ architecture: 'bert', pooling: MEAN }, { maxModelLen: 32 });
    const refused = (texts: unknown, options: object = {}) =>
      expect(engine.embed(texts as never, options)).rejects;
    const code = (name: string, message: RegExp) =>
      expect.objectContaining({ code: `ERR_BLOCKSTEP_${name}`, message: expect.stringMatching(message) });
    await refused([[1], new Int32Array(33)]).toEqual(
      code('UNFIT', /texts\[1\] has 33 tokens, .* at most 32/),
    );
    await refused([[]]).toEqual(code('BAD_ARG', /texts\[0\] must be a text of at least one token/));
    await refused([[1, model.info.vocabSize]]).toEqual(
      code('BAD_ARG', /tokens of the vocabulary, from 0 to/),
    );
    await refused([[1, -1]]).toEqual(code('BAD_ARG', /texts\[0\]\[1\] must be a token id, got -1/));
    await refused([[1.5]]).toEqual(code('BAD_ARG', /texts\[0\]\[0\] must be a token id, got 1\.5/));
    await refused('text').toEqual(code('BAD_ARG', /texts must be a list/));
    await refused([[1]], { dimensions: 65 }).toEqual(code('BAD_ARG', /dimensions must be at most 64/));
    await refused([[1]], { dimensions: 0 }).toEqual(code('BAD_ARG', /dimensions/));
    await refused([[1]], { dimension: 3 }).toEqual(code('BAD_ARG', /dimension/));
    await refused([[1]], { signal: AbortSignal.abort(new Error('no')) }).toThrow('no');
    await refused([[1]], { signal: Object.create(AbortSignal.prototype) as AbortSignal }).toEqual(
      code('BAD_ARG', /options\.signal must be an AbortSignal/),
    );
    expect(() => engine.submit({ prompt: [1], maxTokens: 2 })).toThrow(
      /makes vectors of texts, and generates no text/,
    );
    expect((await engine.embed([[1]]))[0]).toHaveLength(64);
  });

  it('are not made of models that have none, nor texts of models that generate none', async () => {
    const bad = (message: RegExp) =>
      expect.objectContaining({ code: 'ERR_BLOCKSTEP_BAD_MODEL', message: expect.stringMatching(message) });
    const reader = await use.model({ ...SMALL, architecture: 'bert', pooling: MEAN });
    await expect(LlamaExecutor.create({ model: reader, numBlocks: 8 })).rejects.toEqual(
      bad(/generates no text/),
    );
    await expect(LlamaEmbedder.create({ model: await use.model({ architecture: 'mamba' }) })).rejects.toEqual(
      bad(/is recurrent, and only attention models make vectors/),
    );
    const plain = await use.model();
    await expect(LlamaEmbedder.create({ model: plain })).rejects.toEqual(bad(/give pooling/));
    const given = await LlamaEmbedder.create({ model: plain, pooling: 'mean', threads: 1 });
    expect((await given.embed([Int32Array.of(1, 2)], null))[0]).toHaveLength(64);
    given.dispose();
    const { engine } = await use.engine(plain);
    await expect(engine.embed([[1]])).rejects.toThrow(/the executor cannot embed texts/);
  });

  it('are scores of a query and a document, whose tokens are made off the event loop', async () => {
    const model = await use.model({ ...SMALL, architecture: 'bert', pooling: RANK });
    const [query, document] = ['a rose', 'is a rose'].map((text) => [...model.tokenize(text)]);
    // The vocabulary has a token that begins texts, and none that ends or separates them.
    expect([...(await model.rankPrompt('a rose', 'is a rose'))]).toEqual([0, ...query, ...document]);
    let isMade = false;
    const asked = model.rankPrompt('a rose', 'is a rose').then(() => {
      isMade = true;
    });
    // A prompt that is made on the event loop needs no turn of it.
    for (let i = 0; i < 100; i++) await Promise.resolve();
    expect(isMade).toBe(false);
    await asked;
    expect(isMade).toBe(true);
  });

  it('are waited for at the end of an engine, broken off by its disposal, and taken back by a signal', async () => {
    const { model, engine } = await open({ architecture: 'bert', pooling: MEAN }, { maxNumSeqs: 1 });
    const many = texts(model, 20, 200);
    const abort = new AbortController();
    const [first, second] = [engine.embed(many), engine.embed(many, { signal: abort.signal })];
    abort.abort(new Error('enough'));
    await expect(second).rejects.toThrow('enough');
    const ended = engine.shutdown();
    await expect(engine.embed([[1]])).rejects.toMatchObject({ code: 'ERR_BLOCKSTEP_SHUTDOWN' });
    expect(await first).toHaveLength(20);
    await ended;
    const other = await open({ architecture: 'bert', pooling: MEAN }, { maxNumSeqs: 1 });
    const broken = other.engine.embed(many);
    other.engine.dispose();
    await expect(broken).rejects.toMatchObject({ code: 'ERR_BLOCKSTEP_DISPOSED' });
    await expect(other.engine.embed([[1]])).rejects.toMatchObject({ code: 'ERR_BLOCKSTEP_DISPOSED' });
  });

  it('wait in a queue that is bounded', async () => {
    const model = await use.model({ ...SMALL, architecture: 'bert', pooling: MEAN });
    const executor = await LlamaEmbedder.create({ model, threads: 1 });
    const engine = new Engine({ numBlocks: 4, executor, maxQueuedRequests: 3 });
    onTestFinished(() => engine.dispose());
    const whole = engine.embed([[1], [2], [3], [4]]);
    await expect(engine.embed([[1]])).rejects.toMatchObject({ code: 'ERR_BLOCKSTEP_OVERLOADED' });
    expect(await whole).toHaveLength(4);
    expect(await engine.embed([[1]])).toHaveLength(1);
  });

  it('of damaged weights are an error of the requests concerned', async () => {
    const path = use.path({ ...SMALL, architecture: 'bert', pooling: MEAN });
    const bytes = readFileSync(path);
    // The norm of the last layer is at the end of the file.
    for (let at = bytes.length - 512; at < bytes.length; at += 4) bytes.writeFloatLE(Number.NaN, at);
    writeFileSync(path, bytes);
    const model = await openLlamaModel({ path, libraryFolder: libraryFolder() });
    const engine = new Engine({ numBlocks: 4, executor: await LlamaEmbedder.create({ model, threads: 1 }) });
    onTestFinished(() => {
      engine.dispose();
      model.dispose();
    });
    for (let i = 0; i < 2; i++)
      await expect(engine.embed([[1], [2]])).rejects.toMatchObject({
        code: 'ERR_BLOCKSTEP_EXECUTOR',
        message: 'the vector of a text has values that are not numbers',
      });
  });
});
