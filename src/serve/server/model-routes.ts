import type { FastifyInstance } from 'fastify';
import { ApiError } from '../api/api-error.js';
import type { ServeSettings } from './options.js';

/** The routes that say what is served. */
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
  app.get('/version', () => ({ version }));
}
