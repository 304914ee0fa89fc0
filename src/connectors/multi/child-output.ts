// The reports of all children, as one child gets them.
import type { ConnectorOutput, TransferReport } from '../../scheduler/connector/connector.js';
import { REPORT_LISTS } from '../../scheduler/connector/connector-output.js';
import type { Child } from './child.js';
import type { MultiSaid } from './multi-metadata.js';

/**
 * Selects one child's part of all reports: its own reports, under its own child indexes, and the
 * messages of its own workers. Lost blocks concern every child.
 */
export function outputOf(child: Child, output: ConnectorOutput<MultiSaid>): ConnectorOutput {
  const { lostBlocks, workerMetadata = [] } = output;
  const own: Record<string, unknown> = lostBlocks === undefined ? {} : { lostBlocks };
  for (const name of REPORT_LISTS) {
    const list: readonly { readonly child?: number }[] | undefined = output[name];
    const reports = list === undefined ? [] : reportsOf(child, list);
    if (reports.length > 0) own[name] = reports;
  }
  own['workerMetadata'] = workerMetadata.flatMap(({ rank, metadata }) =>
    (Array.isArray(metadata) ? (metadata as MultiSaid) : [])
      .filter(([index]) => index === child.index)
      .map(([, said]) => ({ rank, metadata: said })),
  );
  return own as ConnectorOutput;
}

function reportsOf({ first, count }: Child, list: readonly { readonly child?: number }[]): readonly object[] {
  const own: object[] = [];
  for (const report of list as readonly TransferReport[]) {
    const place = (report.child ?? 0) - first;
    if (place >= 0 && place < count) own.push({ ...report, child: place });
  }
  return own;
}
