import type { FastifyInstance } from 'fastify';
import { show } from '../../base/errors.js';
import { knownNames } from '../../base/known-names.js';
import { ApiError, badField } from '../api/api-error.js';
import { Fields } from '../api/fields.js';
import type { ServeSettings } from './options.js';

const MODES = ['abort', 'wait', 'keep'] as const;
const PAUSE = knownNames<Record<string, unknown>>('the query', { mode: true });
const RESET = knownNames<Record<string, unknown>>('the query', {
  reset_running_requests: true,
  reset_external: true,
});
const NOTHING = knownNames<Record<string, unknown>>('the body', {});
/** How often a pause checks whether the last request has ended. */
const LOOK_MS = 5;

/** The routes that change the engine for all clients. */
export function addControlRoutes(app: FastifyInstance, { engine }: ServeSettings): void {
  let isPaused = false;

  app.post('/pause', async ({ query, body }) => {
    new Fields(body ?? {}, NOTHING);
    const mode = new Fields(query, PAUSE).get('mode') ?? 'abort';
    if (!MODES.includes(mode as never)) throw badField('mode', show(mode), `one of ${MODES.join(', ')}`);
    isPaused = true;
    // In the mode `wait` the running requests may end, and no new request begins.
    engine.pause(mode === 'wait' ? 'new' : 'all');
    if (mode === 'abort') engine.abortAll();
    while (mode === 'wait' && isPaused && engine.numRunning > 0)
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    return { status: 'paused' };
  });

  app.post('/resume', ({ body }) => {
    new Fields(body ?? {}, NOTHING);
    isPaused = false;
    engine.resume();
    return { status: 'resumed' };
  });

  app.get('/is_paused', () => ({ is_paused: isPaused }));

  app.post('/reset_prefix_cache', ({ query, body }) => {
    new Fields(body ?? {}, NOTHING);
    const fields = new Fields(query, RESET);
    const { ok, blockers, pinnedBlocks, local } = engine.resetPrefixCache({
      resetRunning: readFlag(fields, 'reset_running_requests'),
      resetConnector: readFlag(fields, 'reset_external'),
    });
    if (!ok) {
      const users = `${blockers.length} requests, and ${pinnedBlocks} blocks for transfers`;
      const why = local ? 'the tier of the connector keeps its content' : `blocks are in use by ${users}`;
      throw new ApiError(409, `the prefix cache was not reset: ${why}`, { code: 'busy' });
    }
    return { status: 'reset' };
  });
}

/** A boolean of a query string, where all values are text. */
function readFlag(fields: Fields, name: string): boolean {
  const value = fields.get(name) ?? 'false';
  if (value === 'true' || value === 'false') return value === 'true';
  throw badField(name, show(value), 'true or false');
}
