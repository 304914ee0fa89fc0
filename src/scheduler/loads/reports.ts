import type { ParsedOutput, ParsedReport } from '../connector/connector-output.js';
import { releaseIfDrained, renewDeadline } from '../life/finish.js';
import { Outstanding, peer } from '../request/outstanding.js';
import { getByHandle } from '../state/guards.js';
import type { SchedulerState } from '../state/scheduler-state.js';
import { isDeclared, isEarlierLoad, reportForeign } from './judge-report.js';

/**
 * Applies reports of transfers (vLLM `_update_from_kv_xfer_finished`): first signs of life, then finished loads, then
 * finished sends, each in listed order.
 *
 * vLLM asserts that the request is known, and frees its blocks at the first report. Here a report ends exactly the use
 * that it names. A report that names no registered use changes nothing and is counted (get and skip, vLLM #43226): its
 * request has ended, its rank has reported before, or its rank was never asked.
 */
export function applyReports(s: SchedulerState, output: ParsedOutput): void {
  s.connector?.tellOutput(output);
  for (const report of output.renewed) applyRenewed(s, report);
  for (const report of output.finishedReceiving) applyReceived(s, report);
  for (const report of output.finishedSending) applySent(s, report);
}

/**
 * Applies the report that one rank has loaded everything it had to. When all ranks have reported, a later step promotes
 * the request.
 */
function applyReceived(s: SchedulerState, report: ParsedReport): void {
  const request = getByHandle(s, report.handle);
  if (request === undefined) return;
  const { child, rank, step } = report;
  const isEarlier = isEarlierLoad(request, step);
  if (!isEarlier && request.outstanding?.remove('load', peer(child, rank))) releaseIfDrained(s, request);
  else reportForeign(s, request, 'load', report, isEarlier);
}

/**
 * Applies the report that one rank no longer reads blocks of the request. If the request still runs, the report is
 * remembered for its end and frees nothing.
 */
function applySent(s: SchedulerState, report: ParsedReport): void {
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

/** Applies the sign of life of a transfer that is under way: the deadline of its request starts again. */
function applyRenewed(s: SchedulerState, report: ParsedReport): void {
  const request = getByHandle(s, report.handle);
  if (request === undefined) return;
  const owner = peer(report.child, report.rank);
  const kind = (['load', 'store'] as const).find((each) => request.outstanding?.has(each, owner));
  if (kind === undefined) reportForeign(s, request, 'store', report, false);
  else renewDeadline(s, request);
}
