import { hasRows, rowsOf } from '../../core/rows.js';
import { FAILED, reportersOf } from '../connector/ask-connector.js';
import { kvExtent } from '../connector/kv-extent.js';
import type { HandOver } from '../connector/kv-view.js';
import { keptInFlight } from '../plan/tokens-in-flight.js';
import { Outstanding, peer } from '../request/outstanding.js';
import type { Request } from '../request/request.js';
import type { FinishCode } from '../request/status.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { keepDropped } from './preempt.js';

/**
 * Tells the connector once that a request has ended; `end` in `finish.ts` is the only caller. If
 * children of the connector want to keep the blocks, each of their ranks gets a `store` use of
 * them, which the rank's report ends. A rank that reported before the end gets none (vLLM #26929).
 *
 * If the connector throws here it may still read the blocks. Then the reports of every rank of
 * every child are awaited, up to the reclaim deadline.
 */
export function handOver(s: SchedulerState, request: Request, reason: FinishCode): void {
  const { connector } = s;
  if (connector === null) return;
  const answer = connector.askFinished(request, reason, leftBy(s, request));
  if (answer !== FAILED) request.finishedParams = answer.transferParams ?? null;
  if (answer !== FAILED && !answer.delayFree) return;
  const children = answer === FAILED ? connector.reporters.keys() : answer.children;
  request.outstanding ??= new Outstanding();
  for (const child of children) {
    for (const rank of reportersOf(s, child)) {
      if (request.outstanding.endEarly('store', peer(child, rank))) continue;
      s.addUse(request, 'store', peer(child, rank));
    }
  }
}

/**
 * The data that a finished request hands over: the blocks that cover its computed tokens, and how
 * much of their KV is settled. Blocks beyond the computed tokens were taken for draft or future
 * tokens and hold no KV of the request. vLLM handed those over too before #46694, so that producer
 * and consumer disagreed about the number of blocks.
 */
function leftBy(s: SchedulerState, request: Request): HandOver {
  const extent = kvExtent(s, request);
  const { deviations, kvGroups } = s.config;
  const { numComputedTokens, numTokens } = request;
  const known = Math.min(numComputedTokens, numTokens);
  const computed = deviations.settleHandOver ? known : numComputedTokens;
  // Blocks that no later token needs are dropped first. A consumer that continues from exactly
  // these tokens computes the last one again, to sample from it.
  const wanted = deviations.handOverWindows ? Math.max(known - 1, 0) : numComputedTokens;
  const behind = Math.max(0, Math.min(wanted, numComputedTokens - keptInFlight(s, request)));
  if (kvGroups !== null && hasRows(s.core, request.slot)) {
    keepDropped(s, request, behind);
    dropAtEnd(s, request, behind);
  }
  const blocks = rowsOf(s.core, request.slot).map((row, g) => {
    const { type, blockSize } = s.groups.list[g];
    if (!deviations.clipHandOver || type === 'mamba') return row;
    return row.subarray(0, Math.ceil(computed / blockSize));
  });
  return { ...extent, blocks };
}

/**
 * Drops the blocks that no token after the first `numComputed` needs. A store of a step in flight
 * may still have to read them.
 */
function dropAtEnd(s: SchedulerState, request: Request, numComputed: number): void {
  const isOwned = s.connector?.protection.includes('own') === true;
  const isStored = isOwned && s.inFlight.some((plan) => plan.indexOf(request) >= 0);
  const before = isStored ? rowsOf(s.core, request.slot) : [];
  s.core.native.dropGroups(request.slot, numComputed);
  for (const [g, row] of before.entries()) {
    const left = s.core.blocks(request.slot, g);
    for (const [place, id] of row.entries()) if (id !== 0 && left[place] === 0) s.droppedAtEnd.push(id);
  }
}
