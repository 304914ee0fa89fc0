import type { ConnectorOutput, TransferReport } from '../../scheduler/connector/connector.js';
import { REPORT_LISTS } from '../../scheduler/connector/connector-output.js';
import type { Child } from './child.js';
import type { MultiSaid } from './multi-metadata.js';

/**
 * What one child is told of the reports of all: its own reports, under the child indexes that it knows itself by, and what
 * its own workers said. Lost blocks concern every child.
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
