import type { Anomalies } from '../../base/anomalies.js';
import type { AnomalyReason } from '../../base/anomaly-reason.js';
import { isCount, isObject } from '../../base/checks.js';
import { badArgument, show } from '../../base/errors.js';
import type {
  ConnectorOutput,
  InvalidBlock,
  TransferReport,
  WorkerMetadata,
  WorkerOutput,
} from './connector.js';

/** The lists of reports about transfers, of one worker and of all workers together. */
export const TRANSFER_LISTS = ['finishedReceiving', 'finishedSending', 'failedReceiving', 'renewed'] as const;

/** Every list of reports that a worker can give: about transfers, and about blocks. */
export const REPORT_LISTS = [...TRANSFER_LISTS, 'invalidBlocks'] as const;

/**
 * A checked `TransferReport`: the request, the reporting child and rank, and the step that began
 * the load, if given.
 */
export interface ParsedReport {
  readonly handle: number;
  readonly child: number;
  readonly rank: number;
  readonly step?: number;
  /** The load was declined before anything was written. */
  readonly declined?: true;
}

/** A checked `ConnectorOutput`: plain data, each field read once. */
export interface ParsedOutput {
  readonly finishedReceiving: readonly ParsedReport[];
  readonly finishedSending: readonly ParsedReport[];
  readonly failedReceiving: readonly ParsedReport[];
  readonly renewed: readonly ParsedReport[];
  readonly invalidBlocks: readonly ParsedInvalid[];
  readonly lostBlocks: readonly number[];
  /** Metadata of the workers as it was given. Its content is not examined here. */
  readonly workerMetadata: readonly WorkerMetadata[];
}

/** A checked `InvalidBlock`. */
export interface ParsedInvalid {
  readonly block: number;
  readonly child: number;
  readonly handle?: number;
}

/**
 * Checks and copies the workers' reports. A list that is not an array is refused. An entry that
 * names nothing is skipped and counted as an anomaly, so that one bad report costs none of the
 * others.
 * @returns null if there is no output
 * @throws ERR_BLOCKSTEP_BAD_ARG
 */
export function parseOutput(
  anomalies: Anomalies,
  output: ConnectorOutput | null | undefined,
): ParsedOutput | null {
  if (output === undefined || output === null) return null;
  if (typeof output !== 'object') throw badArgument('output', show(output), 'an object');
  const { finishedReceiving, finishedSending, failedReceiving, invalidBlocks, renewed } = output;
  const { lostBlocks, workerMetadata } = output;
  // All lists are checked before any entry is counted, so that a refused output leaves no trace.
  const received = copyList('finishedReceiving', finishedReceiving);
  const sent = copyList('finishedSending', finishedSending);
  const failed = copyList('failedReceiving', failedReceiving);
  const invalid = copyList('invalidBlocks', invalidBlocks);
  const lost = copyList('lostBlocks', lostBlocks);
  const alive = copyList('renewed', renewed);
  const said = copyList('workerMetadata', workerMetadata);
  return {
    finishedReceiving: parseEntries(anomalies, 'finishedReceiving', received, parseReport),
    finishedSending: parseEntries(anomalies, 'finishedSending', sent, parseReport),
    failedReceiving: parseEntries(anomalies, 'failedReceiving', failed, parseReport),
    renewed: parseEntries(anomalies, 'renewed', alive, parseReport),
    invalidBlocks: parseEntries(anomalies, 'invalidBlocks', invalid, parseBlock),
    lostBlocks: parseEntries(
      anomalies,
      'lostBlocks',
      lost,
      (id) => (isCount(id) ? id : null),
      'invalid-block',
    ),
    workerMetadata: parseEntries(anomalies, 'workerMetadata', said, parseMetadata),
  };
}

/**
 * Parses what a worker answers to `getFinished`: each list is read once, and an empty one is left out. Entries are not looked
 * at.
 * @returns null if there is no output
 * @throws ERR_BLOCKSTEP_BAD_ARG. Whoever asks the worker refuses promises
 */
export function parseWorkerOutput(answer: unknown): WorkerOutput | null {
  if (answer === null || answer === undefined) return null;
  if (typeof answer !== 'object')
    throw badArgument('getFinished()', show(answer), 'an object of lists, or null');
  const parsed: Record<string, unknown> = {};
  for (const name of REPORT_LISTS) {
    const list: unknown = (answer as WorkerOutput)[name] ?? [];
    if (!Array.isArray(list)) throw badArgument(`getFinished().${name}`, show(list), 'an array');
    if (list.length > 0) parsed[name] = list;
  }
  const { metadata } = answer as WorkerOutput;
  if (metadata !== undefined) parsed['metadata'] = metadata;
  return parsed;
}

function copyList(name: string, list: unknown): unknown[] {
  if (list === undefined) return [];
  if (Array.isArray(list)) return [...(list as unknown[])];
  throw badArgument(`output.${name}`, show(list), 'an array');
}

function parseEntries<T>(
  anomalies: Anomalies,
  name: string,
  list: readonly unknown[],
  parse: (entry: unknown) => T | null,
  reason: AnomalyReason = 'connector-failed',
): readonly T[] {
  const parsed: T[] = [];
  for (const entry of list) {
    const good = tryParse(parse, entry);
    if (good !== null) parsed.push(good);
    else anomalies.report(reason, `${name} has ${show(entry)}, which names nothing`);
  }
  return parsed;
}

function tryParse<T>(parse: (entry: unknown) => T | null, entry: unknown): T | null {
  try {
    return parse(entry);
  } catch {
    return null;
  }
}

function parseReport(entry: unknown): ParsedReport | null {
  const { handle, child = 0, rank = 0, step, declined } = entry as TransferReport;
  const report: ParsedReport = step === undefined ? { handle, child, rank } : { handle, child, rank, step };
  if (!isParsedReport(report)) return null;
  return declined === true ? { ...report, declined } : report;
}

/** Whether a value is a report as `ParsedOutput` has it. */
export function isParsedReport(value: unknown): value is ParsedReport {
  if (!isObject(value)) return false;
  const { handle, child, rank, step, declined } = value;
  const isNamed = isCount(handle) && isCount(child) && isCount(rank);
  return isNamed && (step === undefined || isCount(step)) && (declined === undefined || declined === true);
}

function parseMetadata(entry: unknown): WorkerMetadata | null {
  const { rank, metadata } = entry as WorkerMetadata;
  return isCount(rank) ? { rank, metadata } : null;
}

function parseBlock(entry: unknown): ParsedInvalid | null {
  const { block, handle, child = 0 } = entry as InvalidBlock;
  const invalid = handle === undefined ? { block, child } : { block, child, handle };
  return isParsedInvalid(invalid) ? invalid : null;
}

/**
 * Whether a value is an invalid block as `ParsedOutput` has it. A number that is no block of the pool is counted
 * later.
 */
export function isParsedInvalid(value: unknown): value is ParsedInvalid {
  if (!isObject(value)) return false;
  const { block, handle, child } = value;
  return Number.isSafeInteger(block) && isCount(child) && (handle === undefined || isCount(handle));
}
