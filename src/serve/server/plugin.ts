import { once } from 'node:events';
import { createRequire } from 'node:module';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { packageRoot } from '../../core/package-root.js';
import { ApiError } from '../api/api-error.js';
import { Guard } from '../entry/guard.js';
import { answerHalfClosed } from '../entry/half-closed.js';
import { addRefusals, discardBody, refusalOf } from '../entry/refusals.js';
import { RequestLog } from '../log/request-log.js';
import { Metrics } from '../metrics/metrics.js';
import { addPageRoutes } from '../page/page-routes.js';
import { Choices } from '../reply/choices.js';
import { addVectorRoutes } from '../vectors/vector-routes.js';
import { addControlRoutes } from './control-routes.js';
import { addGenerateRoutes } from './generate-routes.js';
import { readServerHealth } from './health.js';
import { addHealthRoutes } from './health-routes.js';
import { LiveRequests } from './live-requests.js';
import { Load } from './load.js';
import { addModelRoutes } from './model-routes.js';
import { parseServeOptions, type ServeOptions, type ServeSettings } from './options.js';
import { addRequestRoutes } from './request-routes.js';
import { addTextRoutes } from './text-routes.js';

/** Milliseconds that clients get to read the last bytes of their streams when the server closes. */
const FLUSH_MS = 1000;

/** A plugin of Fastify 5. This type does not require Fastify's declarations. */
export type ServerPlugin = (app: unknown, options: ServeOptions, done: (error?: Error) => void) => void;

/**
 * The server of an engine, as a plugin of Fastify: OpenAI's completions and chats, and routes for
 * operators.
 *
 * `` `ts
 * import fastify from 'fastify';
 * import { blockstepServer } from 'blockstep/serve';
 *
 * const app = fastify({ forceCloseConnections: true });
 * await app.register(blockstepServer, { engine, model: { id: 'my-model' } });
 * await app.listen({ port: 8000 });
 * `` `
 *
 * The plugin runs the engine. When the app closes, unfinished requests may finish for `drainMs`,
 * and the engine ends.
 * @throws ERR_BLOCKSTEP_BAD_ARG by rejection of `register`, for a bad option
 */
export const blockstepServer: ServerPlugin = (app, options, done) => {
  // Fastify adds its own options to those of a plugin.
  const {
    prefix: _,
    logLevel: __,
    logSerializers: ___,
    ...own
  } = options as ServeOptions & Record<string, unknown>;
  parseServeOptions(own)
    .then((settings) => addServer(app as FastifyInstance, settings))
    .then(() => done(), done);
};

function addServer(app: FastifyInstance, settings: ServeSettings): void {
  const { engine, model, control, apiKeys, allowedHosts, maxBodyBytes, wedgedMs } = settings;
  const { version } = createRequire(import.meta.url)(`${packageRoot()}/package.json`) as { version: string };
  const guard = new Guard(apiKeys, allowedHosts);
  const log = new RequestLog(settings.logPrompts ? model.vocabulary : null);
  log.watch(app);
  addRefusals(app, maxBodyBytes);
  const load = new Load();
  app.addHook('onRequest', (request, _reply, done) => {
    guard.check(request);
    done();
  });
  answerHalfClosed(app);
  app.setErrorHandler(async (error, request, reply) => {
    const answer = refusalOf(error, maxBodyBytes, request);
    if (answer.status === 413) await discardBody(request.raw);
    // Errors of the server itself are logged as they were thrown.
    log.failed(reply.raw, answer.status >= 500 ? error : answer);
    return answerError(answer, reply);
  });
  addHealthRoutes(app, settings, load);
  addModelRoutes(app, settings, version);
  addTextRoutes(app, settings);
  const live = new LiveRequests();
  if (control) {
    addControlRoutes(app, settings);
    addRequestRoutes(app, settings, live);
  }
  const health = () => readServerHealth(engine, wedgedMs);
  if (settings.page) addPageRoutes(app, { engine, model: model.id, version, control, health });
  const metrics = settings.metrics ? addMetrics(app, settings) : null;
  const choices = new Choices(engine);
  const isEnding = endWith(app, () => end(settings, load));
  app.register((inner, _options, done) => {
    inner.addHook('onRequest', (_request, reply, next) => {
      if (isEnding()) refuseLate(reply);
      next();
    });
    load.watch(inner);
    if (model.vectors === null)
      addGenerateRoutes(inner, settings, { watch: metrics?.requests ?? null, live, choices, log });
    else addVectorRoutes(inner, model, engine);
    done();
  });
  if (!engine.isRunning) startEngine(app, settings);
}

function addMetrics(app: FastifyInstance, { engine, model }: ServeSettings): Metrics {
  const metrics = new Metrics(engine, model.id);
  app.get('/metrics', async (_request, reply) => {
    return reply.type(metrics.contentType).send(await metrics.read());
  });
  app.addHook('onClose', (_app, done) => {
    metrics.close();
    done();
  });
  return metrics;
}

/**
 * Runs the engine. If the engine breaks, every request and `/health` report it, but the server
 * continues.
 */
function startEngine(app: FastifyInstance, { engine }: ServeSettings): void {
  engine.run().catch((error: unknown) => app.log.error(error, 'the engine is broken'));
}

function answerError(answer: ApiError, reply: FastifyReply): FastifyReply {
  if (answer.retryAfterSeconds !== null) reply.header('retry-after', answer.retryAfterSeconds);
  if (answer.status === 401) reply.header('www-authenticate', 'Bearer');
  return reply.code(answer.status).send(answer.body);
}

/**
 * Makes the shutdown of the app wait for unfinished work, however long that takes. Fastify gives
 * its own hooks for this (`preClose`) ten seconds (`pluginTimeout`), and then cuts connections.
 * Fastify's queue of close handlers has no time limit, and runs the handler that was added last
 * first. A handler that is added after `onReady` therefore runs before all connections end.
 * @returns whether the shutdown has begun
 */
function endWith(app: FastifyInstance, end: () => Promise<void>): () => boolean {
  let ending: Promise<void> | null = null;
  const begin = (): Promise<void> => {
    ending ??= end();
    return ending;
  };
  app.addHook('onReady', (done) => {
    (app as unknown as { onClose(end: () => Promise<void>): void }).onClose(begin);
    done();
  });
  // Covers a server that never became ready.
  app.addHook('onClose', begin);
  return () => ending !== null;
}

/** Refuses a request that comes during shutdown. */
function refuseLate(reply: FastifyReply): void {
  reply.header('connection', 'close');
  throw new ApiError(503, 'the server is ending, and takes no new requests', { code: 'shutdown' });
}

/**
 * Shuts down the engine, and waits until the clients have received their remaining bytes. Called
 * before connections are closed.
 */
async function end({ engine, endsEngine, drainMs }: ServeSettings, { responses }: Load): Promise<void> {
  if (endsEngine) await engine.shutdown({ drainMs });
  const signal = AbortSignal.timeout(endsEngine ? FLUSH_MS : Math.max(drainMs, FLUSH_MS));
  await Promise.allSettled([...responses].map((response) => once(response, 'close', { signal })));
}
