import type { ServerResponse } from 'node:http';
import type { FastifyInstance } from 'fastify';

/** The text requests in progress. */
export class Load {
  readonly #responses = new Set<ServerResponse>();

  /** The responses to these requests. */
  get responses(): ReadonlySet<ServerResponse> {
    return this.#responses;
  }

  /** Tracks the requests of the routes that are added to `app`. */
  watch(app: FastifyInstance): void {
    app.addHook('onRequest', (_request, { raw }, done) => {
      this.#responses.add(raw);
      raw.once('close', () => this.#responses.delete(raw));
      done();
    });
  }
}
