// Checks a log, runs it again, finds the first call that differs.
import { BlockstepError } from '../../base/errors.js';
import type { ReplayResult } from '../../core/native/native.js';
import type { LogHeader } from '../../scheduler/log/log.js';
import { readLog } from '../../scheduler/log/log-reader.js';
import { replayCommands, replayInputs } from '../../scheduler/replay/log-replay.js';
import { callEnds, checkWhole, headerEnd } from './log-records.js';

/** The first decision of a repeated run that differs from its log. */
export interface Difference {
  /** Number of the last step that had been scheduled, from 0; -1 if none had. */
  step: number;
  /** End of the first call that differs, in bytes of the log. */
  byte: number;
  field: 'error' | 'requests of the step' | 'free blocks' | 'digest of the state';
  expected: string;
  found: string;
}

/** A log that was read and checked, and the state that its commands make. */
export interface CheckedLog {
  bytes: Uint8Array;
  header: LogHeader;
  requests: number;
  /**
   * Per step that computed something: the number of requests in its results; -1 if the step failed.
   */
  results: number[];
  expected: ReplayResult;
}

/** The outcome of running a log again. */
export interface LogOutcome {
  /** Steps that computed something. */
  steps: number;
  /** Digest of the native state at its end. */
  digest: bigint;
  difference: Difference | null;
}

/**
 * Reads a log and checks all of it: every record is read, and its commands are applied to a fresh
 * native state.
 * @throws ERR_BLOCKSTEP_BAD_LOG naming the first wrong byte
 */
export function checkLog(bytes: Uint8Array): CheckedLog {
  let header: LogHeader | null = null;
  let requests = 0;
  const results: number[] = [];
  for (const record of readLog(bytes)) {
    if (record.kind === 'header') header = record.header;
    if (record.kind === 'add') requests++;
    if (record.kind === 'stepFailed' && record.numEntries > 0) results.push(-1);
    if (record.kind === 'update' && record.counts.length > 0) results.push(record.counts.length);
  }
  checkWhole(bytes);
  if (header === null) throw badLog(12, 'it has no header');
  checkHeader(bytes);
  try {
    return { bytes, header, requests, results, expected: replayCommands(bytes) };
  } catch (error) {
    const ends = callEnds(bytes);
    const first = firstBad(ends, (end) => refusal(() => replayCommands(bytes.subarray(0, end))) !== null);
    throw badLog(first === 0 ? 12 : ends[first - 1], messageOf(error));
  }
}

/**
 * Feeds the inputs of a log to a new scheduler and compares its decisions with the log. Compared
 * are the number of requests in each step, and the native state at the end. The native state
 * reflects much of its history. Every block records how often it was reused, and the order of the
 * free blocks records who returned them when.
 *
 * If a decision differs, bisection finds the first call that differs. Bisection runs the log again
 * some twenty times.
 */
export function runLogAgain({ bytes, results, expected }: CheckedLog): LogOutcome {
  const whole = compare(bytes, results, expected);
  if (whole.difference === null) return whole;
  const ends = callEnds(bytes);
  const upTo = (end: number): LogOutcome => compare(bytes.subarray(0, end), results, null);
  const first = firstBad(ends, (end) => upTo(end).difference !== null);
  const { difference } = first === ends.length - 1 ? whole : upTo(ends[first]);
  return { ...whole, difference };
}

/**
 * The index of the first end for which `isBad` holds. It must hold for the last end, and for every
 * end behind the first one.
 */
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

/** Runs a log again. `results` may be longer than the log, which may be a prefix of another log. */
function compare(bytes: Uint8Array, results: readonly number[], known: ReplayResult | null): LogOutcome {
  let steps = 0;
  let step = -1;
  let digest = 0n;
  let difference: Difference | null = null;
  const differ = (field: Difference['field'], expected: unknown, found: unknown): void => {
    difference ??= { step, byte: bytes.length, field, expected: String(expected), found: String(found) };
  };
  const expected = known ?? replayCommands(bytes);
  try {
    using scheduler = replayInputs(bytes, (plan) => {
      step = plan.step;
      if (plan.totalTokens === 0) return;
      const recorded = results[steps++] ?? -1;
      if (recorded >= 0 && recorded !== plan.numRequests)
        differ('requests of the step', recorded, plan.numRequests);
    });
    digest = scheduler.digest();
    if (scheduler.core.freeBlocks !== expected.freeBlocks)
      differ('free blocks', expected.freeBlocks, scheduler.core.freeBlocks);
    if (digest !== expected.digest) differ('digest of the state', hex(expected.digest), hex(digest));
  } catch (error) {
    differ('error', 'none', messageOf(error));
  }
  return { steps, digest, difference };
}

function checkHeader(bytes: Uint8Array): void {
  const why = refusal(() => replayInputs(bytes.subarray(0, headerEnd(bytes))).dispose());
  if (why !== null) throw badLog(12, `its header describes no valid scheduler: ${why}`);
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

/** A digest in its printed form. */
export function hex(digest: bigint): string {
  return digest.toString(16).padStart(16, '0');
}
