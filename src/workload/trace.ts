import { checkNames, knownNames } from '../base/known-names.js';
import { azureFormat } from './azure.js';
import { burstGptFormat } from './burstgpt.js';
import { CsvReader } from './csv.js';
import { readLines } from './lines.js';
import { readMooncakeLine } from './mooncake.js';
import { badTrace, isBadTrace, type Place, shown } from './place.js';
import type { Workload } from './workload.js';
import { type TraceRow, WorkloadBuilder } from './workload-builder.js';

/** The trace formats that can be read. */
export const TRACE_FORMATS = ['mooncake', 'azure', 'burstgpt'] as const;
export type TraceFormat = (typeof TRACE_FORMATS)[number];

/** How a trace is read. */
export interface TraceOptions {
  /** Format of the trace. Default: found by the first line. */
  format?: TraceFormat | undefined;
  /**
   * Reading stops after this many requests; lines behind them are not checked. Default: no limit.
   */
  limit?: number | undefined;
  /** Skip and count malformed lines instead of refusing the trace. Default false. */
  skipBad?: boolean | undefined;
  /** Seed of the prompts' contents in formats without hash ids. Default 0. */
  seed?: number | undefined;
  /** Stops the reading; checked once per 1,024 lines. */
  signal?: AbortSignal | undefined;
}

const OPTIONS = knownNames<TraceOptions>('the options of readTrace', {
  format: true,
  limit: true,
  skipBad: true,
  seed: true,
  signal: true,
});

/** A trace that was read and checked to its end (or to `limit`) before anything runs. */
export interface Trace {
  workload: Workload;
  format: TraceFormat;
  /**
   * Malformed lines that were skipped. `firstSkipped` describes the first one; null if none was
   * skipped.
   */
  skippedLines: number;
  firstSkipped: string | null;
  /**
   * Requests whose output length is 0. They are replayed with 1, since a prefill always samples a
   * token.
   */
  zeroOutputs: number;
}

/** Reads the lines of one format. A bad header is never skipped, unlike a bad row. */
interface LineReader {
  readHeader?(line: string, place: Place): void;
  readRow(line: string, place: Place): TraceRow;
}

/** Lines between two checks of the signal. */
const LINES_PER_CHECK = 1024;

/**
 * Reads and checks a whole trace in one streaming pass. Blank lines are ignored.
 * @throws ERR_BLOCKSTEP_BAD_TRACE as `file:line:column: problem` for the first malformed line
 * (unless `skipBad`), or a header that lacks a column. Also for a format that cannot be detected,
 * or a file without requests
 * @throws ERR_BLOCKSTEP_BAD_FILE when the file cannot be read
 * @throws ERR_BLOCKSTEP_BAD_ARG for an unknown option
 * @throws the signal's reason once it is aborted
 */
export async function readTrace(file: string, options: TraceOptions = {}): Promise<Trace> {
  checkNames(options, OPTIONS);
  const place: Place = { file, line: 0 };
  const builder = new WorkloadBuilder();
  const trace = { skippedLines: 0, firstSkipped: null as string | null, zeroOutputs: 0 };
  const limit = options.limit ?? Number.POSITIVE_INFINITY;
  let format = options.format;
  let reader: LineReader | null = null;
  for await (const line of readLines(place)) {
    if (place.line % LINES_PER_CHECK === 0) options.signal?.throwIfAborted();
    if (line.trim() === '') continue;
    if (reader === null) {
      format ??= detectFormat(line, place);
      reader = openReader(format);
      reader.readHeader?.(line, place);
      if (reader.readHeader !== undefined) continue;
    }
    try {
      const row = reader.readRow(line, place);
      if (row.outputTokens === 0) trace.zeroOutputs++;
      builder.add({ ...row, outputTokens: Math.max(1, row.outputTokens) });
    } catch (error) {
      if (options.skipBad !== true || !isBadTrace(error)) throw error;
      trace.firstSkipped ??= error.message;
      trace.skippedLines++;
    }
    if (builder.length >= limit) break;
  }
  if (builder.length === 0) throw badTrace(place, null, emptyProblem(trace.skippedLines));
  return { ...trace, format: format!, workload: builder.build(options.seed ?? 0) };
}

function emptyProblem(skippedLines: number): string {
  return skippedLines > 0
    ? `expected at least one good request, skipped all ${skippedLines} lines`
    : 'expected at least one request, got none';
}

/**
 * Detects the format by the first line that is not blank: a JSON object, or the header of one of
 * the CSV formats.
 */
function detectFormat(line: string, place: Place): TraceFormat {
  if (line.trimStart().startsWith('{')) return 'mooncake';
  if (line.includes('ContextTokens')) return 'azure';
  if (line.includes('Request tokens')) return 'burstgpt';
  const expected = 'expected a JSON object or a CSV header with ContextTokens or Request tokens';
  throw badTrace(place, null, `${expected}, got ${shown(line)} (--format names the format)`);
}

function openReader(format: TraceFormat): LineReader {
  if (format === 'mooncake') return { readRow: readMooncakeLine };
  return new CsvReader(format === 'azure' ? azureFormat() : burstGptFormat());
}
