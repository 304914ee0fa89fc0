import { join } from 'node:path';
import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { type RandomModel, writeRandomModel } from '../../support/gguf/random-model.js';
import { llamaForTests } from '../../support/llama/library.js';
import { temporaryFolder } from '../../support/temp-file.js';
import { serveModel } from './served-model.js';

const LONG = 'many words '.repeat(200);

function modelFile(model: RandomModel): string {
  const path = join(temporaryFolder(), 'my-vectors.gguf');
  writeRandomModel(path, { architecture: 'bert', contextLength: 128, ...model });
  return path;
}

/** An answer of these routes. */
interface Vectors {
  readonly data: readonly { readonly embedding: number[] | string; readonly index: number }[];
  readonly results: readonly {
    readonly index: number;
    readonly relevance_score: number;
    readonly document?: object;
  }[];
  readonly usage: { readonly prompt_tokens: number };
  readonly error: { readonly code: string; readonly message: string; readonly param: string | null };
}

describe.skipIf(llamaForTests().folder === null)('blockstep serve --model', () => {
  it('serves embeddings of a model that makes them, as OpenAI’s own client asks', async () => {
    const { said, url, post } = await serveModel(modelFile({ pooling: 1 }), '--threads', '1');
    const ask = async (body: object, path = '/v1/embeddings') =>
      (await (await post(path, body)).json()) as Vectors;
    expect(said.stdout).toMatch(/^It makes vectors of 64 numbers, .* of texts of at most 128 tokens\.$/m);
    const [, path, asked] = /\d(\/v1\/\S+) .*-d '(.*)'/.exec(said.stdout)!;
    expect((await ask(JSON.parse(asked) as object, path)).data).toHaveLength(1);
    const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });
    const input = ['a rose', 'is a rose', 'a rose'];
    // The client asks for base64 by itself, and reads it.
    const { data, usage, model } = await openai.embeddings.create({ model: 'my-vectors', input });
    expect([data.length, model, data.map(({ index }) => index)]).toEqual([3, 'my-vectors', [0, 1, 2]]);
    const lists = await ask({ input, encoding_format: 'float' });
    for (const [i, { embedding }] of lists.data.entries()) {
      expect(embedding).toHaveLength(64);
      for (const [at, value] of (embedding as number[]).entries())
        expect(data[i].embedding[at]).toBeCloseTo(value, 3);
      expect(Math.hypot(...(embedding as number[]))).toBeCloseTo(1, 4);
    }
    expect(data[0].embedding).not.toEqual(data[1].embedding);
    const { tokens } = (await (await post('/tokenize', { prompt: 'a rose' })).json()) as { tokens: number[] };
    const byTokens = await ask({ input: tokens });
    expect(byTokens.usage.prompt_tokens).toBe(tokens.length);
    for (const [at, value] of (byTokens.data[0].embedding as number[]).entries())
      expect(data[0].embedding[at]).toBeCloseTo(value, 3);
    expect(usage.prompt_tokens).toBeGreaterThan(2 * tokens.length);
    const small = await ask({ input: 'a rose', dimensions: 8 });
    expect(small.data[0].embedding).toHaveLength(8);
    expect(Math.hypot(...(small.data[0].embedding as number[]))).toBeCloseTo(1, 4);
    for (const [body, status, code, param] of [
      [{ input: LONG }, 400, 'context_length_exceeded', 'input'],
      [{ input: ['a', LONG] }, 400, 'context_length_exceeded', 'input[1]'],
      [{ input: 'x y '.repeat(70) }, 400, 'context_length_exceeded', null],
      [{ input: '' }, 400, 'invalid_value', 'input'],
      [{ input: [] }, 400, 'invalid_value', 'input'],
      [{}, 400, 'invalid_value', 'input'],
      [{ input: 'a', dimensions: 65 }, 400, 'bad_arg', null],
      [{ input: 'a', dimensions: 0 }, 400, 'invalid_value', 'dimensions'],
      [{ input: 'a', encoding_format: 'hex' }, 400, 'invalid_value', 'encoding_format'],
      [{ input: 'a', model: 'other' }, 404, 'model_not_found', 'model'],
      [{ input: 'a', temperature: 1 }, 400, 'unknown_parameter', 'temperature'],
    ] as const) {
      const response = await post('/v1/embeddings', body);
      const { error } = (await response.json()) as Vectors;
      expect([response.status, error.code, error.param]).toEqual([status, code, param]);
    }
    for (const path of ['/v1/completions', '/v1/chat/completions', '/v1/responses', '/v1/rerank']) {
      const response = await post(path, { prompt: 'a' });
      const { error } = (await response.json()) as Vectors;
      expect([response.status, error.code]).toEqual([404, 'unsupported_route']);
      expect(error.message).toContain('the model makes embeddings, and generates no text');
    }
  });

  it('ranks documents by a model that scores them', async () => {
    const { said, post } = await serveModel(modelFile({ pooling: 4 }), '--threads', '1');
    const ask = async (body: object) => (await (await post('/v1/rerank', body)).json()) as Vectors;
    expect(said.stdout).toMatch(/^It scores documents, and generates no text/m);
    const documents = ['on mars', 'in spring', 'when they bloom', 'never'];
    const { results, usage } = await ask({ query: 'when do I prune', documents });
    expect(results.map(({ index }) => index).sort()).toEqual([0, 1, 2, 3]);
    const scores = results.map(({ relevance_score }) => relevance_score);
    expect(scores).toEqual([...scores].sort((a, b) => b - a));
    expect(new Set(scores).size).toBe(4);
    expect(usage.prompt_tokens).toBeGreaterThan(8);
    // A document has its score alone too, and the best ones come.
    const best = await ask({ query: 'when do I prune', documents: [{ text: documents[results[0].index] }] });
    expect(best.results[0].relevance_score).toBeCloseTo(scores[0], 2);
    const two = await ask({ query: 'when do I prune', documents, top_n: 2, return_documents: true });
    expect(two.results.map(({ index, document }) => [index, document])).toEqual(
      results.slice(0, 2).map(({ index }) => [index, { text: documents[index] }]),
    );
    for (const [body, param] of [
      [{ query: 'when', documents: ['a', LONG] }, 'documents[1]'],
      [{ query: LONG, documents }, 'query'],
      // Together they are too long, by their tokens.
      [{ query: 'x y '.repeat(35), documents: ['x y '.repeat(35)] }, null],
    ] as const)
      expect((await ask(body)).error).toMatchObject({ code: 'context_length_exceeded', param });
    expect((await ask({ query: '', documents })).error.param).toBe('query');
    expect((await ask({ query: 'a', documents: [] })).error.param).toBe('documents');
    expect((await ask({ query: 'a', documents: [3] })).error.param).toBe('documents[0]');
  });
});
