import type { FastifyInstance } from 'fastify';
import { show } from '../../base/errors.js';
import type { Engine } from '../../engine/engine.js';
import { ApiError, badField } from '../api/api-error.js';
import type { BlockFacts, ServerHealth } from './answers.js';
import { BlockSnapshots } from './block-snapshots.js';
import { makeDocument } from './document.js';
import { Sampler } from './sampler.js';

/** The data of the page, and its permissions. */
export interface PageInput {
  readonly engine: Engine;
  readonly model: string;
  readonly version: string;
  /**
   * Whether the server has the routes behind the page's controls, and whether it reveals the
   * holders of a block.
   */
  readonly control: boolean;
  readonly health: () => ServerHealth;
}

const MOST_HOLDERS = 20;

/** The server's page, with the routes for its figures and its block map. */
export function addPageRoutes(app: FastifyInstance, { engine, health, ...served }: PageInput): void {
  const { html, policy } = makeDocument(served.control);
  const sampler = new Sampler(engine, served, health);
  const snapshots = new BlockSnapshots(engine);
  app.addHook('onClose', (_app, done) => {
    sampler.close();
    done();
  });

  // The document contains no data. It asks for a key itself.
  app.get('/', { config: { isOpen: true } }, ({ url }, reply) => {
    const [path] = url.split('?');
    // The page names its routes relative to itself, so it works under every prefix, also behind a
    // proxy.
    if (!path.endsWith('/')) return reply.redirect(`${path.slice(path.lastIndexOf('/') + 1)}/`);
    return reply
      .headers({
        'content-security-policy': policy,
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cache-control': 'no-cache',
      })
      .type('text/html; charset=utf-8')
      .send(html);
  });

  app.get<{ Querystring: { after?: unknown } }>('/figures', ({ query: { after = '0' } }, reply) => {
    if (typeof after !== 'string' || !/^\d{1,15}$/.test(after))
      throw badField('after', show(after), 'the time of a sample in milliseconds');
    return reply.header('cache-control', 'no-store').send(sampler.read(Number(after)));
  });

  app.get('/blocks', ({ headers }, reply) => {
    const { version, states } = snapshots.read();
    reply.header('etag', version).header('cache-control', 'no-cache');
    if (headers['if-none-match'] === version) return reply.code(304).send();
    return reply.type('application/octet-stream').send(states);
  });

  if (!served.control) return;
  app.get<{ Params: { id: string } }>('/blocks/:id', ({ params: { id } }, reply) => {
    const { numBlocks } = engine.scheduler.config;
    const block = /^\d{1,10}$/.test(id) ? Number(id) : -1;
    if (block < 0 || block >= numBlocks)
      throw new ApiError(404, `there is no block ${show(id)}: blocks are 0 to ${numBlocks - 1}`, {
        code: 'not_found',
      });
    const holders = engine.scheduler.inspect().holdersOf(block);
    const facts: BlockFacts = {
      block,
      holders: holders.slice(0, MOST_HOLDERS).map((request) => request.id),
      numHolders: holders.length,
    };
    return reply.header('cache-control', 'no-store').send(facts);
  });
}
