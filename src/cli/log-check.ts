import { BlockstepError } from '../core/errors.js';
import type { ReplayResult } from '../core/native.js';
import type { LogHeader } from '../scheduler/log.js';
import { readLog } from '../scheduler/log-reader.js';
import { replayCommands, replayInputs } from '../scheduler/log-replay.js';
import { callEnds, checkWhole, headerEnd } from './log-records.js';

/** Where a run over again first decides something else than its log says. */
export interface Difference {
  /** Number of the last step that was scheduled by then, from 0; -1 before any. */
  step: number;
  /** The record at which it shows ends there. */
  byte: number;
  field: 'error' | 'requests of the step' | 'free blocks' | 'digest of the history' | 'digest of the state';
  expected: string;
  found: string;
}

/** A log that was read, and what its commands make. */
export interface CheckedLog {
  bytes: Uint8Array;
  header: LogHeader;
  requests: number;
  expected: ReplayResult;
}

/** What running a log again came to. */
export interface LogOutcome {
  /** Steps that computed something. */
  steps: number;
  /** Digest of the native state at its end. */
  digest: bigint;
  difference: Difference | null;
}

/**
 * Reads a log and applies its commands to a fresh native state, so that nothing of it is damaged.
 * @throws ERR_BLOCKSTEP_BAD_LOG naming the byte from which on it is not what it should be
 */
export function checkLog(bytes: Uint8Array): CheckedLog {
  let header: LogHeader | null = null;
  let requests = 0;
  for (const record of readLog(bytes)) {
    if (record.kind === 'header') header = record.header;
    if (record.kind === 'add') requests++;
  }
  checkWhole(bytes);
  if (header === null) throw badLog(12, 'it has no header');
  checkHeader(bytes);
  try {
    return { bytes, header, requests, expected: replayCommands(bytes) };
  } catch (error) {
    const ends = callEnds(bytes);
    const first = firstBad(ends, (end) => refusal(() => replayCommands(bytes.subarray(0, end))) !== null);
    throw badLog(first === 0 ? 12 : ends[first - 1], messageOf(error));
  }
}

/**
 * Feeds the inputs of a log to a new scheduler and compares what that does with the recorded commands: every block taken,
 * given back, published or evicted, by a digest of the whole history. If that differs, the first call at which it does is
 * searched for.
 */
export function runLogAgain({ bytes, expected }: CheckedLog): LogOutcome {
  const whole = compare(bytes, expected);
  const { steps, digest } = whole;
  if (whole.difference === null) return { steps, digest, difference: null };
  const ends = callEnds(bytes);
  const part = (end: number): Uint8Array => bytes.subarray(0, end);
  const first = firstBad(ends, (end) => compare(part(end), null).difference !== null);
  const { difference } = first === ends.length - 1 ? whole : compare(part(ends[first]), null);
  return { steps, digest, difference: sharpen(bytes, { ...difference!, byte: ends[first] }) };
}

/** The index of the first end for which `isBad` holds, given that it holds for the last, and for all after the first. */
function firstBad(ends: readonly number[], isBad: (end: number) => boolean): number {
  let low = 0;
  let high = ends.length - 1;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isBad(ends[middle])) high = middle;
    else low = middle + 1;
  }
  return low;
}

interface Comparison extends LogOutcome {
  difference: Difference | null;
}

function compare(bytes: Uint8Array, known: ReplayResult | null): Comparison {
  let steps = 0;
  let step = -1;
  const differ = (field: Difference['field'], expected: unknown, found: unknown): Difference => ({
    step,
    byte: bytes.length,
    field,
    expected: String(expected),
    found: String(found),
  });
  const expected = known ?? replayCommands(bytes);
  let scheduler: ReturnType<typeof replayInputs>;
  try {
    scheduler = replayInputs(bytes, (plan) => {
      step = plan.step;
      if (plan.totalTokens > 0) steps++;
    });
  } catch (error) {
    return { steps, digest: 0n, difference: differ('error', 'none', messageOf(error)) };
  }
  try {
    const digest = scheduler.digest();
    const history = scheduler.core.native.rollingDigest();
    const { freeBlocks } = scheduler.core;
    let difference: Difference | null = null;
    if (freeBlocks !== expected.freeBlocks) {
      difference = differ('free blocks', expected.freeBlocks, freeBlocks);
    } else if (history !== expected.rollingDigest) {
      difference = differ('digest of the history', hex(expected.rollingDigest), hex(history));
    } else if (digest !== expected.digest) {
      difference = differ('digest of the state', hex(expected.digest), hex(digest));
    }
    return { steps, digest, difference };
  } finally {
    scheduler.dispose();
  }
}

/** If the step planned another number of requests than its recorded results are for, says that instead of a digest. */
function sharpen(bytes: Uint8Array, difference: Difference): Difference {
  const planned: { step: number; requests: number }[] = [];
  try {
    replayInputs(bytes, ({ step, totalTokens, numRequests }) => {
      if (totalTokens > 0 && step <= difference.step) planned.push({ step, requests: numRequests });
    }).dispose();
  } catch {
    // It ends where the difference makes it end.
  }
  const at = planned.length - 1;
  if (at < 0 || planned[at].step !== difference.step) return difference;
  let results = 0;
  for (const record of readLog(bytes)) {
    if (record.kind === 'stepFailed') results++;
    if (record.kind !== 'update' || record.counts.length === 0 || results++ !== at) continue;
    if (record.counts.length === planned[at].requests) return difference;
    const [expected, found] = [record.counts.length, planned[at].requests].map(String);
    return { ...difference, field: 'requests of the step', expected, found };
  }
  return difference;
}

function checkHeader(bytes: Uint8Array): void {
  const why = refusal(() => replayInputs(bytes.subarray(0, headerEnd(bytes))).dispose());
  if (why !== null) throw badLog(12, `its header makes no scheduler: ${why}`);
}

function refusal(act: () => unknown): string | null {
  try {
    act();
    return null;
  } catch (error) {
    return messageOf(error);
  }
}

function messageOf(error: unknown): string {
  if (error instanceof BlockstepError) return `${error.code}: ${error.message}`;
  return String(error);
}

function badLog(at: number, problem: string): BlockstepError {
  return new BlockstepError(
    'ERR_BLOCKSTEP_BAD_LOG',
    `the log cannot be replayed from byte ${at} on: ${problem}`,
  );
}

function hex(digest: bigint): string {
  return digest.toString(16).padStart(16, '0');
}
