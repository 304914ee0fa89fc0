import type { FastifyInstance } from 'fastify';
import { ApiError } from '../api/api-error.js';
import type { ServeSettings } from './options.js';

/**
 * Routes of OpenAI's and vLLM's APIs, by the kind of model that they need. A model of another kind
 * refuses them by name.
 */
const ROUTES = {
  text: ['/v1/completions', '/v1/chat/completions', '/v1/responses'],
  embeddings: ['/v1/embeddings'],
  scores: ['/v1/rerank'],
  nothing: ['/v1/score'],
};

const DOES = {
  text: 'the model generates text, and makes no embeddings or scores',
  embeddings: 'the model makes embeddings, and generates no text',
  scores: 'the model scores documents, and generates no text',
};

/** The routes that list the served model, and refuse unsupported routes. */
export function addModelRoutes(app: FastifyInstance, { model }: ServeSettings, version: string): void {
  const { id, created, maxModelLen } = model;
  const card = {
    id,
    object: 'model',
    created,
    owned_by: 'blockstep',
    root: id,
    parent: null,
    max_model_len: maxModelLen,
    permission: [],
  };
  app.get('/v1/models', () => ({ object: 'list', data: [card] }));
  app.get<{ Params: { '*': string } }>('/v1/models/*', ({ params }) => {
    if (params['*'] === id) return card;
    throw new ApiError(404, 'there is no such model', { param: 'model', code: 'model_not_found' });
  });
  // Clients try these routes by themselves, and a bare 404 would not say that the model lacks them.
  const does = model.vectors ?? 'text';
  const missing = Object.entries(ROUTES).flatMap(([kind, paths]) => (kind === does ? [] : paths));
  for (const path of missing)
    app.post(path, () => {
      throw new ApiError(404, `${path} is not served: ${DOES[does]}; ask another server for it`, {
        code: 'unsupported_route',
      });
    });
  app.get('/version', () => ({ version }));
}
