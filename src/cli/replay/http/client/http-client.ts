import {
  type ClientRequest,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
} from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { CallFailure } from './call-failure.js';
import type { ServerUrl } from './server-url.js';

/**
 * Most characters of a body that is read whole. The metrics of large servers have some hundred
 * thousand.
 */
const MOST_TEXT = 16 * 2 ** 20;

/** A complete answer. */
export interface Answer {
  readonly status: number;
  readonly text: string;
}

/**
 * Calls one server over kept connections. Node's `fetch` takes more time for each chunk, and drops
 * a request that waits for five minutes, for instance in a long queue.
 */
export class HttpClient {
  readonly server: ServerUrl;
  readonly #agent: HttpAgent;
  readonly #isSecure: boolean;

  constructor(server: ServerUrl) {
    this.server = server;
    this.#isSecure = server.base.startsWith('https:');
    this.#agent = new (this.#isSecure ? HttpsAgent : HttpAgent)({ keepAlive: true });
  }

  /** Begins a request. The caller listens for its errors, and ends it. */
  begin(
    method: 'GET' | 'POST',
    path: string,
    headers: Readonly<Record<string, string | number>>,
  ): ClientRequest {
    const { base, authorization } = this.server;
    const all = { ...headers, ...(authorization !== null && { authorization }) };
    const begin = this.#isSecure ? httpsRequest : httpRequest;
    return begin(base + path, { method, agent: this.#agent, headers: all });
  }

  /**
   * Reads a small resource.
   * @param timeoutMs most milliseconds for the whole call
   * @throws CallFailure without a complete answer. An answer of any status is returned
   */
  get(path: string, timeoutMs: number, signal?: AbortSignal): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const request = this.begin('GET', path, { accept: '*/*' });
      const fail = (failure: CallFailure): void => {
        reject(failure);
        request.destroy();
      };
      const interrupt = (): void => fail(new CallFailure('broken off', 'interrupted'));
      const late = `nothing came from ${this.server.base}${path} for ${timeoutMs / 1000} s`;
      const timer = setTimeout(() => fail(new CallFailure('timed out', late)), timeoutMs);
      const over = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', interrupt);
      };
      request.on('error', (error) => fail(new CallFailure('unreachable', errorInWords(error))));
      request.on('response', (response) => {
        const text = new TextCollector(response, MOST_TEXT);
        response.on('end', () => resolve({ status: response.statusCode as number, text: text.text }));
        response.on('error', (error) => fail(new CallFailure('broken off', errorInWords(error))));
      });
      request.on('close', over);
      if (signal?.aborted) interrupt();
      else signal?.addEventListener('abort', interrupt, { once: true });
      request.end();
    });
  }

  /** Closes all connections. */
  close(): void {
    this.#agent.destroy();
  }
}

/** Keeps the beginning of a body, and discards the rest. */
export class TextCollector {
  text = '';

  constructor(response: IncomingMessage, most: number) {
    response.setEncoding('utf8');
    response.on('data', (piece: string) => {
      if (this.text.length < most) this.text += piece;
    });
  }
}

/**
 * A network error in words. If several addresses of a name were tried, Node's error has no message
 * of its own.
 */
export function errorInWords(error: Error): string {
  const { code, message } = error as NodeJS.ErrnoException;
  const inner = error instanceof AggregateError ? (error.errors[0] as Error | undefined)?.message : undefined;
  return message || inner || code || error.name;
}
