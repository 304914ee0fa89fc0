import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { ApiError, toApiError } from '../api/api-error.js';

/** See `appOptions`. This type does not require Fastify's declarations. */
export interface AppOptions {
  readonly return503OnClosing: boolean;
  readonly http: { readonly requireHostHeader: boolean };
  frameworkErrors(error: Error, request: unknown, reply: unknown): void;
  clientErrorHandler(error: Error, socket: Socket): void;
}

/**
 * Fastify options that make your own app answer in OpenAI's format where no plugin is asked. These
 * cases are malformed requests, invalid paths and requests during shutdown.
 *
 * `` `ts
 * const app = fastify({ ...appOptions, forceCloseConnections: true });
 * `` `
 */
export const appOptions: AppOptions = {
  /** The plugin answers these requests itself. */
  return503OnClosing: false,
  /** The plugin refuses requests without a host. Node would answer with a bare status. */
  http: { requireHostHeader: false },
  frameworkErrors(error, _request, reply): void {
    const { status, body } = toApiError(error);
    void (reply as { code(status: number): { send(body: object): void } }).code(status).send(body);
  },
  clientErrorHandler(error: Error & { code?: string }, socket): void {
    if (error.code === 'ECONNRESET' || socket.destroyed || !socket.writable) return;
    const status = BROKEN[error.code ?? ''] ?? 400;
    const { body } = new ApiError(status, `the request is no HTTP that this server reads: ${error.message}`);
    const text = JSON.stringify(body);
    const head = [
      `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
      'content-type: application/json; charset=utf-8',
      `content-length: ${Buffer.byteLength(text)}`,
      'connection: close',
    ];
    socket.end(`${head.join('\r\n')}\r\n\r\n${text}`);
  },
};

/** Statuses of requests that Node's parser rejects; others are 400. */
const BROKEN: Readonly<Record<string, number>> = { HPE_HEADER_OVERFLOW: 431, ERR_HTTP_REQUEST_TIMEOUT: 408 };
