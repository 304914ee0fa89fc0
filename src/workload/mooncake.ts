// The trace format of Mooncake: JSON lines with hash ids.
import { badTrace, integerField, MAX_TOKENS, type Place, shown } from './place.js';
import { HASH_BLOCK_TOKENS } from './workload.js';
import type { TraceRow } from './workload-builder.js';

const MAX_HASH_ID = 2 ** 31 - 1;

/**
 * Reads one line of a Mooncake trace: a JSON object with `timestamp` (ms), `input_length`,
 * `output_length` (tokens) and `hash_ids`. There is one id per 512 input tokens, and the last may
 * be partial. Other members are ignored.
 * @throws ERR_BLOCKSTEP_BAD_TRACE naming the member that is wrong.
 */
export function readMooncakeLine(line: string, place: Place): TraceRow {
  const row = parseObject(line, place);
  const inputTokens = integerField(place, 'input_length', row['input_length'], 1, MAX_TOKENS);
  return {
    arrivalMs: readTimestamp(row['timestamp'], place),
    inputTokens,
    outputTokens: integerField(place, 'output_length', row['output_length'], 0, MAX_TOKENS),
    hashIds: readHashIds(row['hash_ids'], inputTokens, place),
  };
}

function parseObject(line: string, place: Place): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    throw badTrace(place, null, `expected a JSON object, got ${shown(line)}`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw badTrace(place, null, `expected a JSON object, got ${shown(value)}`);
  }
  return value as Record<string, unknown>;
}

function readTimestamp(value: unknown, place: Place): number {
  if (typeof value === 'number' && value >= 0 && value <= Number.MAX_SAFE_INTEGER) return value;
  throw badTrace(place, 'timestamp', `expected milliseconds from 0 to 2^53 - 1, got ${shown(value)}`);
}

function readHashIds(value: unknown, inputTokens: number, place: Place): readonly number[] {
  if (!Array.isArray(value)) {
    throw badTrace(place, 'hash_ids', `expected an array of integers, got ${shown(value)}`);
  }
  const expected = Math.ceil(inputTokens / HASH_BLOCK_TOKENS);
  if (value.length !== expected) {
    const want = `expected ${expected} ids for ${inputTokens} input tokens (one per ${HASH_BLOCK_TOKENS})`;
    throw badTrace(place, 'hash_ids', `${want}, got ${value.length}`);
  }
  for (const id of value) integerField(place, 'hash_ids', id, 0, MAX_HASH_ID);
  return value;
}
