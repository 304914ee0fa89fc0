import type { AnomalyReason } from '../../base/anomaly-reason.js';
import { reportersOf } from '../connector/ask-connector.js';
import type { ParsedReport } from '../connector/connector-output.js';
import { type OutstandingKind, peer } from '../request/outstanding.js';
import type { Request } from '../request/request.js';
import type { SchedulerState } from '../state/scheduler-state.js';

/** Whether the rank of the child is declared in `reporters`: only reports of declared ranks are expected. */
export function isDeclared(s: SchedulerState, { child, rank }: ParsedReport): boolean {
  return reportersOf(s, child).includes(rank);
}

/**
 * Counts a report that ended no use, as the kind of anomaly that explains it.
 * @param isEarlier the report is about an earlier load of the request
 */
export function reportForeign(
  s: SchedulerState,
  request: Request,
  kind: OutstandingKind,
  report: ParsedReport,
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
  s.anomalies.report(reason, what, request, s.fenced.has(request.handle));
}

/**
 * Whether a report is about an earlier load of the request than its last one. Only a report with
 * the step of its load can tell.
 * @param step the step in the report; undefined = none
 */
export function isEarlierLoad(request: Request, step: number | undefined): boolean {
  return step !== undefined && request.loadStep >= 0 && step !== request.loadStep;
}
