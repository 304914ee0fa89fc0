import { type FastifyInstance, fastify, LogController } from 'fastify';
import { appOptions } from '../../serve/entry/app-options.js';
import type { Io } from '../terminal/io.js';

/**
 * An app of Fastify, with its log: a JSON object a line, by pino. The server's plugin has a line for each request, in place of Fastify's two.
 *
 * In the package this module has Fastify in it (`src/serve/pack-packages.mjs`).
 * @param level of pino, or `silent`
 */
export function makeApp(stream: Io['stderr'], level: string): FastifyInstance {
  return fastify({
    ...appOptions,
    // Streams are waited for by the server itself; connections without a request are closed at once.
    forceCloseConnections: true,
    logger: {
      level,
      stream,
      // Who collects logs knows process and machine.
      base: null,
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
    },
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'request_id' }),
  });
}
