import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { ApiError, toApiError } from '../api/api-error.js';
import { readJson } from './json-body.js';

/**
 * The maximum number of bytes of a refused body that are read, and the maximum time for this in
 * milliseconds.
 */
const MOST_DISCARDED = 2 ** 26;
const DISCARD_MS = 10_000;

/** Sets up the parsing of bodies, and the refusals that precede every route. */
export function addRefusals(app: FastifyInstance, maxBodyBytes: number): void {
  const methods = new Map<string, Set<string>>();
  app.addHook('onRoute', (route) => {
    route.bodyLimit ??= maxBodyBytes;
    const known = methods.get(route.url) ?? new Set();
    for (const method of [route.method].flat()) known.add(method);
    methods.set(route.url, known);
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    'application/json',
    { parseAs: 'buffer', bodyLimit: maxBodyBytes },
    (_request: FastifyRequest, body: Buffer) => readJson(body),
  );
  app.setNotFoundHandler(({ method, url }, reply) => {
    const path = url.split('?')[0];
    const allowed = allowedAt(path, methods);
    if (allowed.length === 0)
      throw new ApiError(404, `there is no ${method} ${path.slice(0, 200)} here`, { code: 'not_found' });
    reply.header('allow', allowed.join(', '));
    throw new ApiError(405, `${path.slice(0, 200)} takes ${allowed.join(', ')}, got ${method}`, {
      code: 'method_not_allowed',
    });
  });
  app.addHook('onReady', (done) => {
    // Node itself answers with a bare status.
    if (app.server.listenerCount('checkExpectation') === 0)
      app.server.on('checkExpectation', refuseExpectation);
    done();
  });
}

/**
 * Reads and drops the rest of a body that is refused for its length. Many clients send their whole
 * body before they read an answer. A connection that is closed with unread bytes is reset, and such
 * a client would never see the reason.
 */
export function discardBody(request: IncomingMessage): Promise<void> {
  if (request.complete || request.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    let left = MOST_DISCARDED;
    const timer = setTimeout(resolve, DISCARD_MS);
    request.on('data', ({ length }: Buffer) => {
      left -= length;
      if (left < 0) resolve();
    });
    request.once('close', () => {
      clearTimeout(timer);
      resolve();
    });
    request.once('end', resolve);
  });
}

function refuseExpectation({ headers }: IncomingMessage, response: ServerResponse): void {
  const { body } = new ApiError(417, `Expect must be "100-continue", got ${JSON.stringify(headers.expect)}`);
  const text = JSON.stringify(body);
  const length = Buffer.byteLength(text);
  const type = 'application/json; charset=utf-8';
  response.writeHead(417, { 'content-type': type, 'content-length': length, connection: 'close' }).end(text);
}

function allowedAt(path: string, methods: ReadonlyMap<string, ReadonlySet<string>>): string[] {
  for (const [url, known] of methods)
    if (url === path || (url.endsWith('*') && path.startsWith(url.slice(0, -1)))) return [...known];
  return [];
}

/** The error that a client receives. Where Fastify itself refused, the message says what to do. */
export function refusalOf(error: unknown, maxBodyBytes: number, { headers }: FastifyRequest): ApiError {
  const { code } = (error ?? {}) as { code?: unknown };
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE')
    return new ApiError(
      413,
      `the body has more than ${maxBodyBytes} bytes; --max-body-bytes (maxBodyBytes) sets the limit`,
      {
        code: 'body_too_large',
      },
    );
  if (code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE') {
    const type = headers['content-type'];
    const got = type === undefined ? 'no Content-Type' : `Content-Type: ${type.slice(0, 100)}`;
    return new ApiError(415, `the body must be JSON: send Content-Type: application/json, got ${got}`, {
      code: 'unsupported_media_type',
    });
  }
  return toApiError(error);
}
