import { isObject } from '../../base/checks.js';
import { BlockstepError, show } from '../../base/errors.js';
import { Workload } from '../../workload/workload.js';
import type { RequestTimes } from '../run/engine-run.js';

/**
 * Requests of a load generator, and the times of their tokens, in milliseconds since the first
 * arrival.
 */
export interface RequestLog {
  readonly workload: Workload;
  readonly times: RequestTimes;
  readonly form: string;
  /** Requests that are left out, because they failed or had no token. */
  readonly left: number;
}

interface Row {
  readonly arrivalMs: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly firstMs: number;
  readonly lastMs: number;
}

/** A row, or null for a request that failed; undefined for a value of another form. */
type Reader = (value: unknown) => (Row | null)[] | undefined;

const FORMS: readonly (readonly [name: string, read: Reader])[] = [
  ['vllm bench serve --save-detailed', readVllm],
  ['GuideLLM', readGuideLlm],
  ['AIPerf', readAiPerf],
  ['times of an engine', readEngine],
];
/** Fewer requests say too little. */
const FEWEST = 20;

/**
 * Reads the output of a load generator. Accepted are
 * `vllm bench serve --save-result --save-detailed`, GuideLLM's JSON and AIPerf's
 * `profile_export.jsonl`. Also accepted are lines of JSON with `queued_ts`, `first_token_ts`,
 * `last_token_ts` (seconds), `input_toks` and `output_toks`.
 * @param name of the file, for messages
 * @throws ERR_BLOCKSTEP_BAD_FILE for another form, for missing or invalid times, and for fewer than
 * 20 requests
 */
export function readRequestLog(text: string, name: string): RequestLog {
  const value = parsed(text, name);
  for (const [form, read] of FORMS) {
    const rows = read(value);
    if (rows === undefined) continue;
    const good = rows.filter((row) => row !== null);
    for (const [i, row] of good.entries()) check(row, i, name);
    if (good.length < FEWEST)
      throw bad(name, `expected at least ${FEWEST} requests with tokens, got ${good.length}`);
    good.sort((a, b) => a.arrivalMs - b.arrivalMs);
    const column = (of: (row: Row) => number): Float64Array =>
      Float64Array.from(good, (row) => of(row) - good[0].arrivalMs);
    const columns = {
      arrivalMs: column((row) => row.arrivalMs),
      inputTokens: Int32Array.from(good, (row) => row.inputTokens),
      outputTokens: Int32Array.from(good, (row) => row.outputTokens),
      hashStarts: null,
      hashIds: new Int32Array(0),
    };
    const times = { firstMs: column((row) => row.firstMs), lastMs: column((row) => row.lastMs) };
    return { workload: new Workload(columns, 0), times, form, left: rows.length - good.length };
  }
  throw bad(
    name,
    `expected results of ${FORMS.map(([form]) => form).join(', ')}, with the times of each request`,
  );
}

/** One JSON value, or lines of JSON values. */
function parsed(text: string, name: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    const lines = text.split('\n').filter((line) => line.trim() !== '');
    return lines.map((line, i) => {
      try {
        return JSON.parse(line) as unknown;
      } catch (cause) {
        throw bad(`${name}:${i + 1}`, `expected JSON: ${(cause as Error).message}`);
      }
    });
  }
}

const S = 1000;
const NS = 1e-6;

function readVllm(value: unknown): (Row | null)[] | undefined {
  if (!isObject(value) || !Array.isArray(value['ttfts'])) return undefined;
  const { start_times, ttfts, itls, input_lens, output_lens, errors } = value as Record<string, unknown[]>;
  if (!Array.isArray(start_times) || !Array.isArray(itls) || !Array.isArray(input_lens)) return undefined;
  return ttfts.map((ttft, i) => {
    if (output_lens[i] === 0 || (errors?.[i] ?? '') !== '') return null;
    const arrivalMs = S * Number(start_times[i]);
    const firstMs = arrivalMs + S * Number(ttft);
    const gaps = (itls[i] ?? []) as number[];
    const lastMs = firstMs + S * gaps.reduce((sum, gap) => sum + gap, 0);
    return {
      arrivalMs,
      inputTokens: Number(input_lens[i]),
      outputTokens: Number(output_lens[i]),
      firstMs,
      lastMs,
    };
  });
}

function readGuideLlm(value: unknown): (Row | null)[] | undefined {
  if (!isObject(value) || !Array.isArray(value['benchmarks'])) return undefined;
  const rows: (Row | null)[] = [];
  for (const benchmark of value['benchmarks'] as unknown[]) {
    const requests = isObject(benchmark) && isObject(benchmark['requests']) ? benchmark['requests'] : {};
    if (!Array.isArray(requests['successful'])) return undefined;
    for (const request of requests['successful'] as Record<string, unknown>[]) {
      const info = isObject(request['info']) ? request['info'] : {};
      const timings = isObject(info['timings']) ? info['timings'] : {};
      rows.push({
        arrivalMs: S * Number(timings['request_start']),
        inputTokens: Number(request['prompt_tokens']),
        outputTokens: Number(request['output_tokens']),
        firstMs: S * Number(timings['first_token_iteration']),
        lastMs: S * Number(timings['last_token_iteration']),
      });
    }
  }
  return rows;
}

function readAiPerf(value: unknown): (Row | null)[] | undefined {
  if (!Array.isArray(value) || !isObject(value[0]) || !isObject(value[0]['metadata'])) return undefined;
  return value.map((record: Record<string, unknown>) => {
    const metadata = record['metadata'] as Record<string, unknown>;
    const metrics = isObject(record['metrics']) ? record['metrics'] : {};
    const isPart = metadata['benchmark_phase'] === 'profiling' && metadata['was_cancelled'] !== true;
    if (!isPart || isObject(record['error'])) return null;
    const metric = (name: string): number => {
      const found = metrics[name];
      return isObject(found) ? Number(found['value']) : Number.NaN;
    };
    const arrivalMs = NS * Number(metadata['request_start_ns']);
    return {
      arrivalMs,
      inputTokens: metric('input_sequence_length'),
      outputTokens: metric('output_sequence_length'),
      firstMs: arrivalMs + metric('time_to_first_token'),
      lastMs: arrivalMs + metric('request_latency'),
    };
  });
}

function readEngine(value: unknown): (Row | null)[] | undefined {
  if (!Array.isArray(value) || !isObject(value[0]) || value[0]['first_token_ts'] === undefined)
    return undefined;
  return value.map((row: Record<string, unknown>) => ({
    arrivalMs: S * Number(row['queued_ts']),
    inputTokens: Number(row['input_toks']),
    outputTokens: Number(row['output_toks']),
    firstMs: S * Number(row['first_token_ts']),
    lastMs: S * Number(row['last_token_ts']),
  }));
}

function check(row: Row, i: number, name: string): void {
  const { arrivalMs, inputTokens, outputTokens, firstMs, lastMs } = row;
  const counts =
    Number.isInteger(inputTokens) && inputTokens >= 1 && Number.isInteger(outputTokens) && outputTokens >= 1;
  if (counts && arrivalMs <= firstMs && firstMs <= lastMs && Number.isFinite(lastMs - arrivalMs)) return;
  throw bad(name, `request ${i}: expected lengths of at least 1 and times in their order, got ${show(row)}`);
}

function bad(name: string, problem: string): BlockstepError {
  return new BlockstepError('ERR_BLOCKSTEP_BAD_FILE', `${name}: ${problem}`);
}
