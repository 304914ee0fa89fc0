import { askFinished, FAILED } from './ask-connector.js';
import { reportersOf } from './load.js';
import { Outstanding, peer } from './outstanding.js';
import type { Request } from './request.js';
import type { SchedulerState } from './scheduler-state.js';
import type { FinishReason } from './status.js';

/**
 * Tells the connector that a request has ended, once: `finish` is the only caller. If the connector wants its blocks, they
 * are used by every rank that will report; a rank that has reported already is not waited for (vLLM #26929).
 *
 * A connector that failed here may still read the blocks: every rank of it is waited for, and the reclaim deadline.
 */
export function handOver(s: SchedulerState, request: Request, reason: FinishReason): void {
  const { connector } = s;
  if (connector === null) return;
  const answer = askFinished(s, request, reason, s.core.blocks(request.slot));
  if (answer !== FAILED) request.transferParams = answer.transferParams ?? null;
  if (answer !== FAILED && !answer.delayFree) return;
  const children = answer === FAILED ? connector.reporters.keys() : answer.children;
  request.outstanding ??= new Outstanding();
  for (const child of children) {
    for (const rank of reportersOf(s, child)) {
      if (request.outstanding.takeEarly('store', peer(child, rank))) continue;
      request.outstanding.add('store', peer(child, rank), s.now);
    }
  }
}
