// Makes the app of Fastify, and its log.
import { type FastifyInstance, fastify, LogController } from 'fastify';
import { appOptions } from '../../serve/entry/app-options.js';
import type { Io } from '../terminal/io.js';

/**
 * A Fastify app with its log: a JSON object a line, by pino. The server's plugin logs one line for
 * each request, in place of Fastify's two.
 *
 * The published package bundles Fastify into this module (`src/serve/pack-packages.mjs`).
 * @param level of pino, or `silent`
 */
export function makeApp(stream: Io['stderr'], level: string): FastifyInstance {
  return fastify({
    ...appOptions,
    // The server itself waits for streams. Connections without a request are closed at once.
    forceCloseConnections: true,
    logger: {
      level,
      stream,
      // Log collectors already know process and machine.
      base: null,
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
    },
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'request_id' }),
  });
}
