import type { FastifyInstance } from 'fastify';
import { show } from '../../base/errors.js';
import { knownNames } from '../../base/known-names.js';
import type { Engine } from '../../engine/engine.js';
import type { Request } from '../../scheduler/request/request.js';
import { ApiError, badField } from '../api/api-error.js';
import { Fields } from '../api/fields.js';
import type { ListedRequest, RequestFacts, RequestList } from '../page/answers.js';
import type { LiveRequests } from './live-requests.js';
import type { ServeSettings } from './options.js';

const LIST = knownNames<Record<string, unknown>>('the query', { match: true, limit: true, explain: true });
const ABORT = knownNames<Record<string, unknown>>('the body', { ids: true });
const MOST_IDS = 10_000;
const LONGEST_ID = 300;
/** Explaining one request takes less than a millisecond. */
const MOST_LISTED = 500;

/** The routes by which operators see and abort the requests of all clients. */
export function addRequestRoutes(app: FastifyInstance, { engine }: ServeSettings, live: LiveRequests): void {
  app.get('/requests', ({ query }): RequestList => {
    const fields = new Fields(query, LIST);
    const match = fields.text('match', LONGEST_ID) ?? '';
    const explains = readExplain(fields.get('explain'));
    const { streams, total } = live.list(match, readLimit(fields.get('limit')));
    const requests = streams.map(
      ({ id, numOutputTokens }): ListedRequest => ({
        id,
        state: stateOf(engine.scheduler.get(id)),
        output_tokens: numOutputTokens,
        ...(explains && { explain: engine.explain(id) }),
      }),
    );
    return { requests, total };
  });

  app.get<{ Params: { '*': string } }>('/requests/*', ({ params: { '*': id } }) => factsOf(engine, id));

  app.post('/abort_requests', ({ body }) => {
    const ids = new Fields(body, ABORT).list('ids', MOST_IDS, 'ids of requests');
    if (ids === undefined || !ids.every((id) => typeof id === 'string' && id.length <= LONGEST_ID))
      throw badField('ids', show(ids), 'a list of ids of requests, as /requests has them');
    engine.abort(ids as string[]);
    return { status: 'aborted' };
  });
}

/**
 * The facts about a request of the engine, wherever it came from. @throws ApiError if there is none
 * with this id
 */
function factsOf(engine: Engine, id: string): RequestFacts {
  const { scheduler } = engine;
  const seen = scheduler.inspect();
  const request = scheduler.get(id) ?? seen.findFinished(id);
  if (request === undefined)
    throw new ApiError(
      404,
      `there is no request ${show(id.slice(0, LONGEST_ID))}: it has ended, or never was`,
      {
        code: 'not_found',
      },
    );
  return {
    id,
    state: stateOf(request),
    explain: engine.explain(id),
    prompt_tokens: request.numPromptTokens,
    output_tokens: request.numOutputTokens,
    max_tokens: request.maxTokens,
    computed_tokens: request.numComputedTokens,
    cached_tokens: request.numCachedTokens < 0 ? null : request.numCachedTokens,
    priority: request.priority,
    preemptions: request.numPreemptions,
    groups: seen.holdingsOf(request),
    blocks: [...seen.blocksOf(request)],
  };
}

/** The state of a request, in a word. */
function stateOf(request: Request | undefined): string {
  return request === undefined || request.isFinished ? 'finished' : (request.waitReason ?? 'running');
}

/** A limit from a query string, where all values are text. */
function readLimit(value: unknown = String(MOST_LISTED)): number {
  const limit = typeof value === 'string' && /^\d{1,4}$/.test(value) ? Number(value) : 0;
  if (limit >= 1 && limit <= MOST_LISTED) return limit;
  throw badField('limit', show(value), `a number from 1 to ${MOST_LISTED}`);
}

function readExplain(value: unknown = 'true'): boolean {
  if (value === 'true' || value === 'false') return value === 'true';
  throw badField('explain', show(value), 'true or false');
}
