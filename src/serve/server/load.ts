import type { FastifyInstance } from 'fastify';

/** How many requests for text are under way. */
export class Load {
  #numRequests = 0;

  get numRequests(): number {
    return this.#numRequests;
  }

  /** Counts the requests of the routes that are added to `app`. */
  watch(app: FastifyInstance): void {
    app.addHook('onRequest', (_request, reply, done) => {
      this.#numRequests++;
      reply.raw.once('close', () => {
        this.#numRequests--;
      });
      done();
    });
  }
}
