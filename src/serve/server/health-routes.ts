import type { FastifyInstance, FastifyReply } from 'fastify';
import { readServerHealth } from './health.js';
import type { Load } from './load.js';
import type { ServeSettings } from './options.js';

/** The routes that report the server's health. All but `/load` need no key. */
export function addHealthRoutes(app: FastifyInstance, { engine, wedgedMs }: ServeSettings, load: Load): void {
  const answer = (_request: unknown, reply: FastifyReply): FastifyReply => {
    const { healthy, state, reasons, sinceStepMs } = readServerHealth(engine, wedgedMs);
    if (healthy) return reply.code(200).send();
    return reply.code(503).send({
      state,
      reasons,
      last_step: sinceStepMs === null ? null : new Date(Date.now() - sinceStepMs).toISOString(),
    });
  };
  // Load balancers have no key.
  const open = { config: { isOpen: true } };
  app.get('/health', open, answer);
  app.get('/ping', open, answer);
  app.post('/ping', open, answer);
  app.get('/load', () => ({ server_load: load.responses.size }));
}
