import { BlockstepError, checkInteger, show } from '../../base/errors.js';
import { type Core, TOKEN_MAX } from '../../core/core.js';
import { EntryKind, type Plan } from '../../scheduler/plan/plan.js';
import type { Request } from '../../scheduler/request/request.js';
import type { PlanTables } from './executor-tables.js';

/**
 * The tables of a step that is kept back, with the tokens of every entry still readable when the step is executed. The tables stay
 * as they were gathered; but requests may end until then, and their slots may be given to others. So the tokens of the requests that
 * the step admits are copied now. Those of a running request are copied by the scheduler if it ends (`Plan.keptTokens`), which few do.
 * The one set of tables on a GPU stays too: nothing is planned behind a step that is kept back, so nothing is gathered.
 */
export function keepTables<T extends PlanTables>(plan: Plan, tables: T, core: Core): T {
  const kept = new Map<number, Int32Array>();
  for (let i = 0; i < plan.numRequests; i++) {
    if (plan.kinds[i] !== EntryKind.running) kept.set(i, core.tokens(plan.slots[i]));
  }
  const ended = new Map<Request, Int32Array>();
  plan.keptTokens = ended;
  const readTokens = (entry: number, from: number, out: Int32Array): number => {
    const tokens = kept.get(entry) ?? ended.get(plan.requests[entry]);
    if (tokens === undefined) return readLive(plan, tables, entry, from, out);
    const some = tokens.subarray(checkInteger('from', from, 0, TOKEN_MAX)).subarray(0, out.length);
    out.set(some);
    return some.length;
  };
  return Object.create(tables, { readTokens: { value: readTokens } }) as T;
}

/** Reads tokens that were not kept. Refused if the request has ended all the same: its slot may be another's by now. */
function readLive(plan: Plan, tables: PlanTables, entry: number, from: number, out: Int32Array): number {
  const request = entry < plan.numRequests ? plan.requests[entry] : undefined;
  if (request?.isFinished === true) {
    throw new BlockstepError('ERR_BLOCKSTEP_BAD_SLOT', `request ${show(request.id)} has ended`);
  }
  return tables.readTokens(entry, from, out);
}
