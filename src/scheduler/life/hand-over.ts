import { FAILED, reportersOf } from '../connector/ask-connector.js';
import { kvExtent } from '../connector/kv-extent.js';
import type { HandOver } from '../connector/kv-view.js';
import { Outstanding, peer } from '../request/outstanding.js';
import type { Request } from '../request/request.js';
import type { FinishCode } from '../request/status.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/**
 * Tells the connector that a request has ended, once: `finish` is the only caller. If the connector wants its blocks, they
 * are used by every rank that will report; a rank that has reported already is not waited for (vLLM #26929).
 *
 * A connector that failed here may still read the blocks: every rank of it is waited for, and the reclaim deadline.
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
      if (request.outstanding.takeEarly('store', peer(child, rank))) continue;
      s.addUse(request, 'store', peer(child, rank));
    }
  }
}

/**
 * What a request leaves in its blocks. Those behind its computed tokens, taken for drafts or for tokens that were still to
 * come, hold nothing of it; vLLM handed them over too before #46694, so that producer and consumer disagreed in their count.
 */
function leftBy(s: SchedulerState, request: Request): HandOver {
  const extent = kvExtent(s.inFlight, request);
  const held = s.core.blocks(request.slot);
  const { blockSize, deviations } = s.config;
  const covered = Math.ceil(Math.min(request.numComputedTokens, request.numTokens) / blockSize);
  const count = deviations.clipHandOver ? covered : held.length;
  return { ...extent, blocks: [held.subarray(0, count)] };
}
