import type { FastifyInstance, FastifyReply } from 'fastify';
import type { Load } from './load.js';
import type { ServeSettings } from './options.js';

/** The routes that say how the server is. They need no key. */
export function addHealthRoutes(app: FastifyInstance, { engine, wedgedMs }: ServeSettings, load: Load): void {
  const answer = (_request: unknown, reply: FastifyReply): FastifyReply => {
    const { healthy, state, reasons } = engine.health();
    const { stillMs, sinceStepMs } = engine.progress();
    const wedged =
      wedgedMs > 0 && stillMs >= wedgedMs
        ? [`no step was answered for ${Math.round(stillMs)} ms, although requests wait for one`]
        : [];
    const draining = state === 'draining' ? ['the server is shutting down'] : [];
    const all = [...reasons, ...wedged, ...draining];
    if (healthy && all.length === 0) return reply.code(200).send();
    return reply.code(503).send({
      state,
      reasons: all,
      last_step: sinceStepMs === null ? null : new Date(Date.now() - sinceStepMs).toISOString(),
    });
  };
  app.get('/health', answer);
  app.get('/ping', answer);
  app.post('/ping', answer);
  app.get('/load', () => ({ server_load: load.numRequests }));
}
