import type { FastifyInstance } from 'fastify';
import { ApiError } from '../api/api-error.js';
import type { ServeSettings } from './options.js';

/** Routes of OpenAI's and vLLM's APIs that are refused by name. */
const NO_ROUTES = ['/v1/embeddings', '/v1/rerank', '/v1/score'];

/** The routes that say what is served, and what is not. */
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
  // Clients look for it by itself, and a mere 404 would not say that it will not come.
  for (const path of NO_ROUTES)
    app.post(path, () => {
      throw new ApiError(
        404,
        `${path} is not served: this server generates text, and makes no embeddings or scores; ask another server for them`,
        {
          code: 'unsupported_route',
        },
      );
    });
  app.get('/version', () => ({ version }));
}
