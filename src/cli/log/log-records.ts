// Finds the ends of records and calls in a log.
import { BlockstepError } from '../../base/errors.js';
import { LOG_MAGIC, padding, RecordKind } from '../../scheduler/log/log.js';

/** Bytes before the first record: magic and version. */
const PREAMBLE = LOG_MAGIC.length + 4;

/**
 * The ends of all calls of a log, in bytes. A call first writes its inputs and then the commands
 * that they led to, so a call ends behind each record of commands. The log up to such an end is a
 * valid log. The last end is the end of the log.
 * @throws ERR_BLOCKSTEP_BAD_LOG naming the byte where the log was cut off
 */
export function callEnds(bytes: Uint8Array): number[] {
  const ends: number[] = [];
  let last = PREAMBLE;
  for (const { kind, end } of frames(bytes)) {
    if (kind === RecordKind.commands) ends.push(end);
    last = end;
  }
  if (ends.at(-1) !== last) ends.push(last);
  return ends;
}

/**
 * Checks that a log ends with a whole record.
 * @throws ERR_BLOCKSTEP_BAD_LOG naming the byte where it was cut off
 */
export function checkWhole(bytes: Uint8Array): void {
  const all = frames(bytes);
  while (!all.next().done);
}

/** Where the header ends, in bytes. */
export function headerEnd(bytes: Uint8Array): number {
  const { value } = frames(bytes).next();
  return value === undefined ? PREAMBLE : value.end;
}

function* frames(bytes: Uint8Array): Generator<{ kind: number; end: number }, undefined> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = PREAMBLE; at < bytes.length; ) {
    const length = at + 8 <= bytes.length ? view.getUint32(at + 4, true) : 0;
    const end = at + 8 + length + padding(length);
    if (end > bytes.length) throw cutOff(at, end, bytes.length);
    yield { kind: view.getUint32(at, true), end };
    at = end;
  }
  return undefined;
}

function cutOff(at: number, end: number, length: number): BlockstepError {
  const problem = `the record at byte ${at} ends at byte ${end}, and the log at byte ${length}`;
  const advice = `its first ${at} bytes are a log that can be replayed`;
  return new BlockstepError('ERR_BLOCKSTEP_BAD_LOG', `the log was cut off: ${problem}; ${advice}`);
}
