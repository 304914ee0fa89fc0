import type { AnomalyReason } from '../../base/anomaly-reason.js';
import { tellOutput } from '../connector/ask-connector.js';
import type { TakenOutput, TakenReport } from '../connector/connector-output.js';
import { releaseIfDrained, renewDeadline } from '../life/finish.js';
import { reportersOf } from '../request/load.js';
import { Outstanding, type OutstandingKind, peer } from '../request/outstanding.js';
import type { Request } from '../request/request.js';
import { getByHandle } from '../state/guards.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/**
 * Takes what ended (vLLM `_update_from_kv_xfer_finished`): loads first, then sends, each in listed order. vLLM asserts that
 * the request is known and frees its blocks at the first report. Here each report ends the one use that it names, and one
 * that names none changes nothing (get and skip, #43226): the request it belongs to ended, the peer has said so before, or
 * it is not the peer that was asked.
 */
export function takeTransfers(s: SchedulerState, output: TakenOutput): void {
  tellOutput(s, output);
  for (const report of output.renewed) takeRenewed(s, report);
  for (const report of output.finishedReceiving) takeReceived(s, report);
  for (const report of output.finishedSending) takeSent(s, report);
}

/** One rank has loaded all that it had to. A request whose ranks all have is promoted when a step reaches it. */
function takeReceived(s: SchedulerState, report: TakenReport): void {
  const request = getByHandle(s, report.handle);
  if (request === undefined) return;
  const { child, rank, step } = report;
  const isEarlier = isEarlierLoad(request, step);
  if (!isEarlier && request.outstanding?.remove('load', peer(child, rank))) releaseIfDrained(s, request);
  else reportForeign(s, request, 'load', report, isEarlier);
}

/** One rank reads nothing of the request any more. Of one that still runs this is remembered, and nothing is freed. */
function takeSent(s: SchedulerState, report: TakenReport): void {
  const request = getByHandle(s, report.handle);
  if (request === undefined) return;
  const owner = peer(report.child, report.rank);
  if (request.outstanding?.remove('store', owner)) {
    releaseIfDrained(s, request);
    return;
  }
  if (!request.isFinished && isDeclared(s, report)) {
    request.outstanding ??= new Outstanding();
    if (request.outstanding.addEarly('store', owner)) {
      s.anomalies.report(
        'live-completion',
        `request ${request.id} has not finished: ${owner} sent it`,
        request,
      );
      return;
    }
  }
  reportForeign(s, request, 'store', report, false);
}

/** Whether a report that names the step of its load is about another load than the last one of the request. */
export function isEarlierLoad(request: Request, step: number | undefined): boolean {
  return step !== undefined && request.loadStep >= 0 && step !== request.loadStep;
}

/** What this rank does for the request is not over, and its peer is alive: who waits for that waits anew. */
function takeRenewed(s: SchedulerState, report: TakenReport): void {
  const request = getByHandle(s, report.handle);
  if (request === undefined) return;
  const owner = peer(report.child, report.rank);
  const kind = (['load', 'store'] as const).find((each) => request.outstanding?.has(each, owner));
  if (kind === undefined) reportForeign(s, request, 'store', report, false);
  else renewDeadline(s, request);
}

/** Counts a report that ended nothing, by what is wrong with it. */
export function reportForeign(
  s: SchedulerState,
  request: Request,
  kind: OutstandingKind,
  report: TakenReport,
  isEarlier: boolean,
): void {
  const { outstanding } = request;
  const owner = peer(report.child, report.rank);
  const what = `${kind} of request ${request.id} by ${owner}`;
  const other: OutstandingKind = kind === 'load' ? 'store' : 'load';
  let reason: AnomalyReason = 'unknown-completion';
  if (isEarlier || outstanding?.knew(kind, owner)) reason = 'duplicate-completion';
  else if (!isDeclared(s, report) || outstanding?.hasAny(kind)) reason = 'wrong-owner';
  else if (outstanding?.has(other, owner)) reason = 'wrong-direction';
  else if (!request.isFinished) reason = kind === 'load' ? 'live-completion' : 'duplicate-completion';
  s.anomalies.report(reason, what, request);
}

/** Whether this rank of this child is one whose reports are awaited. */
export function isDeclared(s: SchedulerState, { child, rank }: TakenReport): boolean {
  return reportersOf(s, child).includes(rank);
}
