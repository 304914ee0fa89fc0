// Reads records of a log back, and refuses malformed records.
import { parseUint8Array } from '../../base/arrays.js';
import { isCount, isList, isObject } from '../../base/checks.js';
import { BlockstepError, show } from '../../base/errors.js';
import { type ConnectorAnswer, isConnectorQuestion, isGoodAnswer } from '../connector/connector-answers.js';
import {
  isParsedInvalid,
  isParsedReport,
  type ParsedOutput,
  TRANSFER_LISTS,
} from '../connector/connector-output.js';
import { type GrammarAnswer, GrammarQuestion } from '../request/grammar.js';
import type { BlockUse } from '../request/outstanding.js';
import type { ParsedRequest } from '../request/request.js';
import type { ChunkInput } from '../request/session.js';
import { LOG_MAGIC, LOG_VERSION, type LogHeader, padding, RecordKind } from './log.js';

/** A request as recorded in a log, without its grammar. */
export type LoggedRequest = Omit<ParsedRequest, 'grammar' | 'grammarCalls'>;

/** One decoded record of a log. Arrays are copies. Times (`now`) are in milliseconds of the scheduler's clock. */
export type LogRecord =
  /** The first record: the configuration. */
  | { kind: 'header'; header: LogHeader }
  /**
   * The native commands of the calls so far, in `words`: batches of u32, each after its length in
   * words.
   */
  | { kind: 'commands'; words: Uint32Array }
  /**
   * `Scheduler.add`. `constrained`: the request had a grammar, whose answers have records of their
   * own.
   */
  | { kind: 'add'; now: number; input: LoggedRequest; constrained: boolean }
  /** `Scheduler.addChunk` to the session `handle`. `input.prompt`: token ids of the chunk. */
  | { kind: 'chunk'; now: number; handle: number; input: ChunkInput & { prompt: Int32Array } }
  /** `Scheduler.endSession`. */
  | { kind: 'end'; now: number; handle: number }
  /** A grammar was asked in the call of the preceding record. */
  | { kind: 'grammar'; answer: GrammarAnswer }
  /** `Scheduler.replaceDraftTokens` for the plan of `step`. Entry i has the next `counts[i]` of `tokens`. */
  | { kind: 'replacedDrafts'; step: number; counts: Int32Array; tokens: Int32Array }
  /** `Scheduler.abort`; without handles: `Scheduler.abortAll`. */
  | { kind: 'abort'; now: number; handles: number[] }
  /** `Scheduler.schedule`, or `scheduleAsync`. */
  | { kind: 'schedule'; now: number }
  /** `Scheduler.update` of the oldest plan; of an empty plan if `counts` is empty. The arrays: see `StepResult`. */
  | { kind: 'update'; now: number; counts: Int32Array; tokens: Int32Array; errors: Uint8Array | undefined }
  /** `Scheduler.updateDraftTokens` for the plan scheduled last. `counts`, `tokens`: see `Drafts`. */
  | { kind: 'drafts'; counts: Int32Array; tokens: Int32Array }
  /** `Scheduler.resetPrefixCache`; the flags are its options. */
  | { kind: 'reset'; resetRunning: boolean; resetConnector: boolean }
  /** `Scheduler.pause`; `none`: `Scheduler.resume`. */
  | { kind: 'pause'; mode: 'none' | 'new' | 'all' }
  /** `Scheduler.failStep` of the oldest plan, which has `numEntries` entries; 0: of an empty plan. */
  | { kind: 'stepFailed'; now: number; numEntries: number }
  /** `Scheduler.hold` and `Scheduler.complete`. */
  | { kind: 'hold' | 'complete'; now: number; use: BlockUse }
  /** The connector was asked in the call of the preceding record. */
  | { kind: 'connector'; answer: ConnectorAnswer }
  /** Reports of workers. `withUpdate`: they came with the update, or the failed step, whose record follows. */
  | { kind: 'transfers'; now: number; withUpdate: boolean; output: ParsedOutput }
  /** `Scheduler.fenceTransfers`. `child` undefined: all children. Loads of steps after `begunStep` had not begun. */
  | { kind: 'fence'; now: number; child: number | undefined; begunStep: number }
  /** The connector pinned these block ids (`pinned`), or unpinned them. */
  | { kind: 'pins'; pinned: boolean; blocks: Int32Array }
  /** The connector registered a use of blocks (`begun`), or ended it. */
  | { kind: 'use'; begun: boolean; use: BlockUse }
  /** The connector woke a request that waited for it. */
  | { kind: 'wake'; handle: number };

/**
 * Decodes a log, record by record. A last record that was cut off, because the process died, ends the log.
 * @throws ERR_BLOCKSTEP_BAD_ARG; ERR_BLOCKSTEP_BAD_LOG naming the byte at which the log is malformed
 */
export function* readLog(log: Uint8Array): Generator<LogRecord> {
  const bytes = parseUint8Array('log', log);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const magic = new TextDecoder('latin1').decode(bytes.subarray(0, LOG_MAGIC.length));
  if (magic !== LOG_MAGIC || bytes.length < 12) throw badLog(0, `magic ${JSON.stringify(magic)}`);
  const version = view.getUint32(8, true);
  if (version !== LOG_VERSION) throw badLog(8, `version ${version}, this reader knows ${LOG_VERSION}`);
  for (let at = 12; at + 8 <= bytes.length; ) {
    const kind = view.getUint32(at, true);
    const length = view.getUint32(at + 4, true);
    const end = at + 8 + length;
    if ((kind === RecordKind.header) !== (at === 12))
      throw badLog(at, `record kind ${kind}: the header must come first`);
    if (end > bytes.length) return;
    const payload = new Payload(bytes.slice(at + 8, end), at + 8);
    const record = decode(kind, payload);
    if (payload.rest > 0)
      throw badLog(end - payload.rest, `${payload.rest} bytes after the record's content`);
    yield record;
    // The caller may have transferred the log's memory while it had the record. That must not look
    // like the log's end.
    parseUint8Array('log', bytes);
    at = end + padding(length);
  }
}

function decode(kind: number, payload: Payload): LogRecord {
  switch (kind) {
    case RecordKind.header:
      return { kind: 'header', header: payload.object(payload.rest) as unknown as LogHeader };
    case RecordKind.commands:
      return { kind: 'commands', words: new Uint32Array(payload.words(payload.rest / 4)) };
    case RecordKind.add: {
      const now = payload.f64();
      const { grammar, ...input } = payload.withPrompt<LoggedRequest & { grammar?: unknown }>();
      return { kind: 'add', now, input, constrained: grammar === true };
    }
    case RecordKind.chunk: {
      const now = payload.f64();
      const handle = payload.f64();
      return { kind: 'chunk', now, handle, input: payload.withPrompt<ChunkInput & { prompt: Int32Array }>() };
    }
    case RecordKind.end: {
      const now = payload.f64();
      return { kind: 'end', now, handle: payload.f64() };
    }
    case RecordKind.grammar: {
      const handle = payload.f64();
      const question = payload.oneOf(Object.keys(GrammarQuestion) as GrammarQuestion[]);
      return { kind: 'grammar', answer: { handle, question, answer: payload.i32() } };
    }
    case RecordKind.replacedDrafts: {
      const step = payload.u32();
      return { kind: 'replacedDrafts', step, ...payload.flat() };
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
      return { kind: 'reset', resetRunning: payload.flag(), resetConnector: payload.flag() };
    case RecordKind.pause:
      return { kind: 'pause', mode: payload.oneOf(['none', 'new', 'all']) };
    case RecordKind.stepFailed:
      return { kind: 'stepFailed', now: payload.f64(), numEntries: payload.u32() };
    case RecordKind.hold:
    case RecordKind.complete: {
      const now = payload.f64();
      const use = payload.object(payload.rest) as unknown as BlockUse;
      return { kind: kind === RecordKind.hold ? 'hold' : 'complete', now, use };
    }
    case RecordKind.connector: {
      const answer = payload.json(payload.rest, isConnectorAnswer, 'an answer of a connector');
      return { kind: 'connector', answer };
    }
    case RecordKind.transfers: {
      const now = payload.f64();
      const withUpdate = payload.flag();
      const output = payload.json(payload.rest, isParsedOutput, 'reports of transfers');
      return { kind: 'transfers', now, withUpdate, output };
    }
    case RecordKind.fence: {
      const now = payload.f64();
      const child = payload.integer(-1);
      return { kind: 'fence', now, child: child < 0 ? undefined : child, begunStep: payload.integer(-1) };
    }
    case RecordKind.pins:
      return {
        kind: 'pins',
        pinned: payload.flag(),
        blocks: new Int32Array(payload.words(payload.rest / 4)),
      };
    case RecordKind.use: {
      const begun = payload.flag();
      return { kind: 'use', begun, use: payload.object(payload.rest) as unknown as BlockUse };
    }
    case RecordKind.wake:
      return { kind: 'wake', handle: payload.integer(0) };
    default:
      throw badLog(payload.origin, `record kind ${kind}`);
  }
}

/** A cursor over the payload of one record. Reading past its end throws ERR_BLOCKSTEP_BAD_LOG. */
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
    if (!Number.isInteger(length) || length < 0 || length > this.rest) {
      throw badLog(this.origin + this.#at, `${this.rest} bytes where ${length} are expected`);
    }
    const from = this.#at;
    this.#at += length;
    return from;
  }

  u32(): number {
    return this.#view.getUint32(this.skip(4), true);
  }

  i32(): number {
    return this.#view.getInt32(this.skip(4), true);
  }

  f64(): number {
    return this.#view.getFloat64(this.skip(8), true);
  }

  bytes(length: number): Uint8Array {
    const from = this.skip(length);
    return this.#bytes.slice(from, from + length);
  }

  /** The bytes of the next `count` 32-bit words, in a new buffer. */
  words(count: number): ArrayBuffer {
    if (!Number.isInteger(count)) throw badLog(this.origin + this.#at, `${count} words`);
    return this.bytes(4 * count).buffer as ArrayBuffer;
  }

  /** The payload of the writer's `withPrompt`: JSON, and a prompt up to the end of the record. */
  withPrompt<T extends { prompt: Int32Array }>(): T {
    const length = this.u32();
    const meta = this.object(length);
    this.skip(padding(length));
    return { ...meta, prompt: new Int32Array(this.words(this.rest / 4)) } as unknown as T;
  }

  flat(): { counts: Int32Array; tokens: Int32Array } {
    const counts = new Int32Array(this.words(this.u32()));
    let total = 0;
    for (const count of counts) {
      if (count < 0) throw badLog(this.origin + this.#at, `a count of ${count}`);
      total += count;
    }
    return { counts, tokens: new Int32Array(this.words(total)) };
  }

  object(length: number): Record<string, unknown> {
    return this.json(length, isObject, 'an object');
  }

  json<T>(length: number, isGood: JsonCheck<T>, expected: string): T {
    const at = this.origin + this.#at;
    let value: unknown;
    try {
      value = JSON.parse(new TextDecoder().decode(this.bytes(length)));
    } catch (cause) {
      throw cause instanceof BlockstepError
        ? cause
        : badLog(at, `JSON that does not parse (${String(cause)})`);
    }
    if (isGood(value)) return value;
    throw badLog(at, `JSON of ${show(value)} where ${expected} is expected`);
  }

  /** An integer that is at least `least`, stored as f64. */
  integer(least: number): number {
    const at = this.origin + this.#at;
    const value = this.f64();
    if (Number.isSafeInteger(value) && value >= least) return value;
    throw badLog(at, `${value} where an integer from ${least} on is expected`);
  }

  flag(): boolean {
    return this.oneOf([false, true]);
  }

  oneOf<T>(values: readonly T[]): T {
    const at = this.origin + this.#at;
    const index = this.u32();
    if (index >= values.length) throw badLog(at, `${index} where 0 to ${values.length - 1} is expected`);
    return values[index];
  }
}

function badLog(at: number, found: string): BlockstepError {
  return new BlockstepError('ERR_BLOCKSTEP_BAD_LOG', `not a blockstep log: found ${found} at byte ${at}`);
}

/**
 * Checks the JSON of a record in a log. Whether the content fits the scheduler is only decided
 * during the replay.
 */
type JsonCheck<T> = (value: unknown) => value is T;

/** Whether JSON is a record of a connector's answer. */
function isConnectorAnswer(value: unknown): value is ConnectorAnswer {
  if (!isObject(value) || !isCount(value['handle'])) return false;
  const { question, answer } = value;
  if (!isConnectorQuestion(question)) return false;
  // The record does not say how many children the connector has, so any count names a child.
  return answer === 'failed' || isGoodAnswer(question, answer, isCount);
}

/** Whether JSON is a record of the reports of workers. */
function isParsedOutput(value: unknown): value is ParsedOutput {
  if (!isObject(value)) return false;
  // Older logs have no list of lost blocks.
  const { invalidBlocks, lostBlocks = [] } = value;
  return (
    TRANSFER_LISTS.every((name) => isList(value[name], isParsedReport)) &&
    isList(invalidBlocks, isParsedInvalid) &&
    isList(lostBlocks, isCount)
  );
}
