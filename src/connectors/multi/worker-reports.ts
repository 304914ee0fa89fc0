import type { WorkerOutput } from '../../scheduler/connector/connector.js';
import type { MultiSaid } from './multi-metadata.js';

const LISTS = [
  'finishedReceiving',
  'finishedSending',
  'failedReceiving',
  'renewed',
  'invalidBlocks',
] as const;
type List = (typeof LISTS)[number];

/**
 * Checks what the worker of one child reports, and gives each report its child index.
 * @param first the child's first index
 * @throws TypeError for an answer that cannot be read; then nothing of it counts
 */
export function reportsOf(answer: unknown, first: number): WorkerOutput | null {
  if (answer === null || answer === undefined) return null;
  if (typeof answer !== 'object' || 'then' in answer)
    throw new TypeError('answered getFinished with what makes no sense');
  const output = answer as WorkerOutput;
  const own: { -readonly [name in keyof WorkerOutput]?: unknown } = {};
  for (const name of LISTS) {
    const list = output[name];
    if (list === undefined) continue;
    if (!Array.isArray(list)) throw new TypeError(`answered getFinished with ${name}, which is no list`);
    if (list.length === 0) continue;
    own[name] = list.map((report: { child?: number }) => ({ ...report, child: first + (report.child ?? 0) }));
  }
  if (output.metadata !== undefined) own.metadata = output.metadata;
  return own as WorkerOutput;
}

/** Puts the reports of several children together. @param outputs each with the place of its child */
export function merged(
  outputs: readonly (readonly [index: number, output: WorkerOutput])[],
): WorkerOutput<MultiSaid> {
  const all: Partial<Record<List, unknown[]>> & { metadata?: MultiSaid } = {};
  const said: [number, unknown][] = [];
  for (const [index, output] of outputs) {
    for (const name of LISTS) {
      const list = output[name];
      if (list !== undefined) all[name] = [...(all[name] ?? []), ...list];
    }
    if (output.metadata !== undefined) said.push([index, output.metadata]);
  }
  if (said.length > 0) all.metadata = said;
  return all as WorkerOutput<MultiSaid>;
}
