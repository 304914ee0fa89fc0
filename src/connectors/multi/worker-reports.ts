import type { WorkerOutput } from '../../scheduler/connector/connector.js';
import { parseWorkerOutput, REPORT_LISTS } from '../../scheduler/connector/connector-output.js';
import type { MultiSaid } from './multi-metadata.js';

/**
 * Checks the reports of one child's worker, and gives each report its child index.
 * @param first the child's first index
 * @throws ERR_BLOCKSTEP_BAD_ARG for an unreadable answer, of which nothing counts
 */
export function reportsOf(answer: unknown, first: number): WorkerOutput | null {
  const output = parseWorkerOutput(answer);
  if (output === null) return null;
  const own: Record<string, unknown> = { ...output };
  for (const name of REPORT_LISTS) {
    const list: readonly { readonly child?: number }[] | undefined = output[name];
    if (list !== undefined)
      own[name] = list.map((report) => ({ ...report, child: first + (report.child ?? 0) }));
  }
  return own as WorkerOutput;
}

/** Merges the reports of several children. @param outputs each with the place of its child */
export function merged(
  outputs: readonly (readonly [index: number, output: WorkerOutput])[],
): WorkerOutput<MultiSaid> {
  const all: Partial<Record<(typeof REPORT_LISTS)[number], unknown[]>> & { metadata?: MultiSaid } = {};
  const said: [number, unknown][] = [];
  for (const [index, output] of outputs) {
    for (const name of REPORT_LISTS) {
      const list = output[name];
      if (list !== undefined) all[name] = [...(all[name] ?? []), ...list];
    }
    if (output.metadata !== undefined) said.push([index, output.metadata]);
  }
  if (said.length > 0) all.metadata = said;
  return all as WorkerOutput<MultiSaid>;
}
