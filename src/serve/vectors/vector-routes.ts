import { endianness } from 'node:os';
import type { FastifyInstance, FastifyReply } from 'fastify';
import type { Engine } from '../../engine/engine.js';
import { checkModel, type ServedModel } from '../api/served-model.js';
import { type EmbeddingRequest, readEmbeddings, readRanks } from './vector-requests.js';

/** The routes of a model that makes vectors or scores of texts. */
export function addVectorRoutes(
  app: FastifyInstance,
  model: ServedModel,
  engine: Pick<Engine, 'embed'>,
): void {
  const { id, rankPrompt } = model;

  if (model.vectors === 'embeddings')
    app.post('/v1/embeddings', async ({ body }, reply) => {
      checkModel(body, model);
      const request = await readEmbeddings(body, model);
      const { texts, dimensions } = request;
      const signal = untilLeft(reply);
      const vectors = await engine.embed(texts, { signal, ...(dimensions !== null && { dimensions }) });
      const data = vectors.map((vector, index) => ({
        object: 'embedding',
        index,
        embedding: written(vector, request),
      }));
      return { object: 'list', model: id, data, usage: usageOf(texts) };
    });

  if (model.vectors === 'scores' && rankPrompt !== null)
    for (const path of ['/v1/rerank', '/rerank'])
      app.post(path, async ({ body }, reply) => {
        checkModel(body, model);
        const { query, documents, topN, withDocuments } = readRanks(body, model);
        const texts = await Promise.all(documents.map((document) => rankPrompt(query, document)));
        const scores = await engine.embed(texts, { signal: untilLeft(reply), normalize: false });
        const results = scores
          .map(([relevance_score], index) => ({ index, relevance_score }))
          .sort((a, b) => b.relevance_score - a.relevance_score || a.index - b.index)
          .slice(0, topN)
          .map((each) => (withDocuments ? { ...each, document: { text: documents[each.index] } } : each));
        return { object: 'list', model: id, results, usage: usageOf(texts) };
      });
}

/** A signal that is aborted when the client leaves. */
function untilLeft({ raw }: FastifyReply): AbortSignal {
  const left = new AbortController();
  raw.once('close', () => {
    if (!raw.writableFinished) left.abort(new Error('the client has left'));
  });
  return left.signal;
}

function written(vector: Float32Array, { isBase64 }: EmbeddingRequest): readonly number[] | string {
  if (!isBase64) return Array.from(vector);
  const bytes = Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength);
  return (endianness() === 'LE' ? bytes : Buffer.from(bytes).swap32()).toString('base64');
}

function usageOf(texts: readonly Int32Array[]): object {
  const tokens = texts.reduce((sum, { length }) => sum + length, 0);
  return { prompt_tokens: tokens, total_tokens: tokens };
}
