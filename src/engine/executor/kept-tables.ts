import { BlockstepError, checkInteger, show } from '../../base/errors.js';
import { type Core, TOKEN_MAX } from '../../core/core.js';
import { EntryKind, type Plan } from '../../scheduler/plan/plan.js';
import type { Request } from '../../scheduler/request/request.js';
import type { PlanTables } from './executor-tables.js';

/**
 * The tables of a step that is kept back, with the tokens of every entry readable until the step is
 * executed. The gathered tables stay as they are. But `readTokens` reads by slot, and a request may
 * end meanwhile and give its slot to another. So the tokens of admitted requests are copied now.
 * The tokens of a running request are copied by the scheduler if the request ends
 * (`Plan.keptTokens`), which is rare. The single set of tables on a GPU stays as well: nothing is
 * planned, and so nothing gathered, after a step that is kept back.
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

/**
 * Reads tokens from the scheduler's state.
 * @throws ERR_BLOCKSTEP_BAD_SLOT if the request has ended, because its slot may belong to another
 * by now
 */
function readLive(plan: Plan, tables: PlanTables, entry: number, from: number, out: Int32Array): number {
  const request = entry < plan.numRequests ? plan.requests[entry] : undefined;
  if (request?.isFinished === true) {
    throw new BlockstepError('ERR_BLOCKSTEP_BAD_SLOT', `request ${show(request.id)} has ended`);
  }
  return tables.readTokens(entry, from, out);
}
