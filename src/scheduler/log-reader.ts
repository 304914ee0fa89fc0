import { BlockstepError } from '../core/errors.js';
import { type BlockUse, LOG_MAGIC, LOG_VERSION, type LogHeader, RecordKind } from './log.js';
import type { RequestInput } from './request.js';

/** One record of a log, decoded. Arrays are copies. */
export type LogRecord =
  | { kind: 'header'; header: LogHeader }
  | { kind: 'commands'; words: Uint32Array }
  | { kind: 'add'; now: number; input: RequestInput }
  | { kind: 'abort'; now: number; handles: number[] }
  | { kind: 'schedule'; now: number }
  | { kind: 'update'; now: number; counts: Int32Array; tokens: Int32Array; errors: Uint8Array | undefined }
  | { kind: 'drafts'; counts: Int32Array; tokens: Int32Array }
  | { kind: 'reset'; resetRunning: boolean }
  | { kind: 'pause'; mode: 'none' | 'new' | 'all' }
  | { kind: 'stepFailed'; now: number }
  | { kind: 'hold' | 'complete'; now: number; use: BlockUse };

/**
 * Reads a log from its bytes, record by record. A last record that was cut off (the process died) ends the log.
 * @throws ERR_BLOCKSTEP_BAD_LOG naming the byte where the log is not what it should be
 */
export function* readLog(bytes: Uint8Array): Generator<LogRecord> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const magic = new TextDecoder('latin1').decode(bytes.subarray(0, LOG_MAGIC.length));
  if (magic !== LOG_MAGIC || bytes.length < 12) throw badLog(0, `magic ${JSON.stringify(magic)}`);
  const version = view.getUint32(8, true);
  if (version !== LOG_VERSION) throw badLog(8, `version ${version}, this reader knows ${LOG_VERSION}`);
  for (let at = 12; at + 8 <= bytes.length; ) {
    const kind = view.getUint32(at, true);
    const length = view.getUint32(at + 4, true);
    const end = at + 8 + length;
    if (end > bytes.length) return;
    yield decode(kind, new Payload(bytes.slice(at + 8, end), at + 8));
    at = end + ((4 - (length % 4)) % 4);
  }
}

function decode(kind: number, payload: Payload): LogRecord {
  switch (kind) {
    case RecordKind.header:
      return { kind: 'header', header: payload.json(payload.rest) as LogHeader };
    case RecordKind.commands:
      return { kind: 'commands', words: new Uint32Array(payload.words(payload.rest / 4)) };
    case RecordKind.add: {
      const now = payload.f64();
      const length = payload.u32();
      const meta = payload.json(length) as Omit<RequestInput, 'prompt'>;
      payload.skip((4 - (length % 4)) % 4);
      return {
        kind: 'add',
        now,
        input: { ...meta, prompt: new Int32Array(payload.words(payload.rest / 4)) },
      };
    }
    case RecordKind.abort: {
      const now = payload.f64();
      const handles: number[] = [];
      while (payload.rest > 0) handles.push(payload.f64());
      return { kind: 'abort', now, handles };
    }
    case RecordKind.schedule:
      return { kind: 'schedule', now: payload.f64() };
    case RecordKind.update: {
      const now = payload.f64();
      const flat = payload.flat();
      const errors = payload.rest > 0 ? payload.bytes(payload.rest) : undefined;
      return { kind: 'update', now, ...flat, errors };
    }
    case RecordKind.drafts:
      return { kind: 'drafts', ...payload.flat() };
    case RecordKind.reset:
      return { kind: 'reset', resetRunning: payload.u32() === 1 };
    case RecordKind.pause:
      return { kind: 'pause', mode: payload.oneOf(['none', 'new', 'all']) };
    case RecordKind.stepFailed:
      return { kind: 'stepFailed', now: payload.f64() };
    case RecordKind.hold:
    case RecordKind.complete: {
      const now = payload.f64();
      const use = payload.json(payload.rest) as BlockUse;
      return { kind: kind === RecordKind.hold ? 'hold' : 'complete', now, use };
    }
    default:
      throw badLog(payload.origin, `record kind ${kind}`);
  }
}

/** A cursor over one record's payload; reading past its end is a malformed log. */
class Payload {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #at = 0;

  constructor(
    bytes: Uint8Array,
    readonly origin: number,
  ) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get rest(): number {
    return this.#bytes.length - this.#at;
  }

  skip(length: number): number {
    if (!Number.isInteger(length) || length > this.rest) {
      throw badLog(this.origin + this.#at, `${this.rest} bytes left where ${length} are needed`);
    }
    const from = this.#at;
    this.#at += length;
    return from;
  }

  u32(): number {
    return this.#view.getUint32(this.skip(4), true);
  }

  f64(): number {
    return this.#view.getFloat64(this.skip(8), true);
  }

  bytes(length: number): Uint8Array {
    const from = this.skip(length);
    return this.#bytes.slice(from, from + length);
  }

  /** The bytes of `count` 32-bit words, in a buffer of their own. */
  words(count: number): ArrayBuffer {
    return this.bytes(4 * count).buffer as ArrayBuffer;
  }

  flat(): { counts: Int32Array; tokens: Int32Array } {
    const counts = new Int32Array(this.words(this.u32()));
    const total = counts.reduce((sum, count) => sum + count, 0);
    return { counts, tokens: new Int32Array(this.words(total)) };
  }

  json(length: number): unknown {
    const at = this.origin + this.#at;
    try {
      return JSON.parse(new TextDecoder().decode(this.bytes(length)));
    } catch (cause) {
      throw cause instanceof BlockstepError
        ? cause
        : badLog(at, `JSON that does not parse (${String(cause)})`);
    }
  }

  oneOf<T>(values: readonly T[]): T {
    const index = this.u32();
    if (index >= values.length)
      throw badLog(this.origin, `${index} where 0 to ${values.length - 1} is expected`);
    return values[index];
  }
}

function badLog(at: number, found: string): BlockstepError {
  return new BlockstepError('ERR_BLOCKSTEP_BAD_LOG', `not a blockstep log: found ${found} at byte ${at}`);
}
