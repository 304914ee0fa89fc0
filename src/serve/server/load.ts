import type { ServerResponse } from 'node:http';
import type { FastifyInstance } from 'fastify';

/** The requests for text that are under way. */
export class Load {
  readonly #responses = new Set<ServerResponse>();

  /** Their responses. */
  get responses(): ReadonlySet<ServerResponse> {
    return this.#responses;
  }

  /** Keeps the requests of the routes that are added to `app`. */
  watch(app: FastifyInstance): void {
    app.addHook('onRequest', (_request, { raw }, done) => {
      this.#responses.add(raw);
      raw.once('close', () => this.#responses.delete(raw));
      done();
    });
  }
}
