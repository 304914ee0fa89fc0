// The format of a log, and the writer of its records.
import type { ConnectorAnswer } from '../connector/connector-answers.js';
import {
  type ConnectorMethods,
  type OptionalMethod,
  optionalMethods,
} from '../connector/connector-methods.js';
import type { ParsedOutput } from '../connector/connector-output.js';
import type { LogSink, SchedulerConfig } from '../options/options.js';
import type { ResetOptions } from '../options/reset.js';
import { type GrammarAnswer, GrammarQuestion } from '../request/grammar.js';
import type { BlockUse } from '../request/outstanding.js';
import type { ParsedRequest } from '../request/request.js';
import type { Chunk } from '../request/session.js';
import { RecordBytes } from './record-bytes.js';

/**
 * The log of a scheduler: every input, and every native command that its decisions produced, in the
 * order of execution. The commands alone rebuild the native state; the inputs alone rebuild every
 * decision.
 *
 * Format (little endian): the magic "BSTEPLOG", u32 version, then records. A record is u32 kind,
 * u32 length in bytes, and the payload, padded with zeros to a multiple of four bytes. The first
 * record is the header.
 */
export const LOG_MAGIC = 'BSTEPLOG';
/** The version of the format. A reader refuses every other version. */
export const LOG_VERSION = 6;

/** The kinds of records, and the payload of each. Clocks are in milliseconds. */
export const RecordKind = {
  /** JSON of the configuration. */
  header: 1,
  /** u32 words, as `NativeCore.drainLog` gives them: batches of commands, each after its length. */
  commands: 2,
  /**
   * f64 clock, u32 length of the JSON, JSON of the request without its prompt, the prompt as i32.
   * Instead of the grammar the JSON has `true`, and the answers of the grammar have records of
   * their own. Transfer params and
   * `params` are left out: only the connector and the executor read them, and the answers of both
   * are recorded.
   */
  add: 3,
  /** f64 clock, handles as f64; without handles: all requests. */
  abort: 4,
  /** f64 clock. */
  schedule: 5,
  /** f64 clock, u32 number of entries, counts as i32, tokens as i32, one error byte per entry or none at all. */
  update: 6,
  /** u32 number of entries, counts as i32, tokens as i32. */
  drafts: 7,
  /** u32 1 = running requests too, otherwise 0; u32 1 = the connector's tier too, otherwise 0. */
  reset: 8,
  /** u32 0 = resume, 1 = new, 2 = all. */
  pause: 9,
  /**
   * f64 clock, u32 number of entries of the plan. The oldest step failed as a whole; without entries, an empty plan's
   * step.
   */
  stepFailed: 10,
  /** f64 clock, JSON of handle, kind, owner. */
  hold: 11,
  /** f64 clock, JSON of handle, kind, owner. */
  complete: 12,
  /**
   * f64 clock, f64 handle, u32 length of the JSON, JSON of the chunk without its prompt and its `params`, the prompt
   * as i32.
   */
  chunk: 13,
  /** f64 clock, f64 handle. The input of the session is complete. */
  end: 14,
  /** u32 step of the plan, u32 number of entries, counts as i32, tokens as i32. */
  replacedDrafts: 15,
  /**
   * f64 handle, u32 question, i32 answer; -1: the grammar threw, or its answer was invalid. The
   * answers that grammars gave in a call follow the record of that call, in the order of the
   * questions. The answer that a grammar is not ready yet is not recorded.
   */
  grammar: 16,
  /**
   * JSON of handle, question and answer; `failed`: the connector threw, or its answer was invalid.
   * The answers that the connector gave in a call follow the record of that call, in the order of
   * the questions.
   */
  connector: 17,
  /** f64 clock, u32 1 = given with the update, or the failed step, that follows, JSON of the reports. */
  transfers: 18,
  /** f64 clock, f64 child (-1 = all), f64 the last step whose loads had begun. */
  fence: 19,
  /**
   * u32 1 = pinned, 0 = unpinned, block ids as i32. The connector did this during the question of
   * the answer record that follows. If none follows, it did so after the call of the preceding
   * record.
   */
  pins: 20,
  /**
   * u32 1 = begun, 0 = ended, JSON of handle, kind, owner. The connector registered or ended a use of blocks; when:
   * see `pins`.
   */
  use: 21,
  /** f64 handle. The connector woke a request that waited for it; when: see `pins`. */
  wake: 22,
} as const;
export type RecordKind = (typeof RecordKind)[keyof typeof RecordKind];

/** The content of the header, which suffices to build the same scheduler again. */
export type LogHeader = Omit<
  SchedulerConfig,
  'now' | 'log' | 'hashSeed' | 'placement' | 'connector' | 'borrower'
> & {
  /** The 16 bytes of the key of the block hash, as 32 hexadecimal digits. */
  hashSeed: string;
  /** The recorded facts about the connector; null = there was none. */
  connector: LoggedConnector | null;
};

/** The part of a connector that a header contains. */
export interface LoggedConnector extends Pick<ConnectorMethods, 'protection' | 'reporters'> {
  /** The optional methods that the connector has. */
  methods: OptionalMethod[];
}

/** Checked tokens of the entries of a plan. The arrays may be longer than their content. */
export interface LoggedTokens {
  tokens: Int32Array;
  counts: Int32Array;
  /** The sum of `counts`. */
  numTokens: number;
  errors?: Uint8Array | undefined;
}

const encoder = new TextEncoder();

/**
 * Writes the records of one scheduler. Each record is a new buffer and one call of the sink, so the
 * sink's use of the bytes cannot affect anything else.
 */
export class LogWriter {
  readonly #sink: LogSink;
  readonly #record = new RecordBytes();

  constructor(sink: LogSink, config: SchedulerConfig) {
    this.#sink = sink;
    const version = new Uint8Array(12);
    version.set(encoder.encode(LOG_MAGIC));
    new DataView(version.buffer).setUint32(8, LOG_VERSION, true);
    sink.write(version);
    const { now: _now, log: _log, placement: _placement, hashSeed, ...others } = config;
    const { connector: calls, borrower: _none, ...plain } = others;
    const connector: LoggedConnector | null = calls && {
      protection: calls.protection,
      reporters: calls.reporters,
      methods: optionalMethods(calls),
    };
    const header = { ...plain, connector, hashSeed: Buffer.from(hashSeed).toString('hex') };
    this.#write(this.#begin(RecordKind.header).bytes(json(header)));
  }

  commands(words: Uint32Array): void {
    if (words.length > 0) this.#write(this.#begin(RecordKind.commands).words(words));
  }

  add(now: number, input: ParsedRequest): void {
    const {
      prompt,
      grammar,
      grammarCalls: _calls,
      transferParams: _transfer,
      params: _params,
      ...rest
    } = input;
    const meta = grammar === undefined ? rest : { ...rest, grammar: true };
    this.#write(withPrompt(this.#begin(RecordKind.add).f64(now), meta, prompt));
  }

  chunk(now: number, handle: number, { prompt, stops, arrivalTime }: Chunk): void {
    const record = this.#begin(RecordKind.chunk).f64(now).f64(handle);
    this.#write(withPrompt(record, { ...stops, arrivalTime }, prompt));
  }

  end(now: number, handle: number): void {
    this.#write(this.#begin(RecordKind.end).f64(now).f64(handle));
  }

  grammar({ handle, question, answer }: GrammarAnswer): void {
    this.#write(this.#begin(RecordKind.grammar).f64(handle).u32(GrammarQuestion[question]).u32(answer));
  }

  /** @param handles the requests to abort; null: all requests */
  abort(now: number, handles: readonly number[] | null): void {
    const record = this.#begin(RecordKind.abort).f64(now);
    for (const handle of handles ?? []) record.f64(handle);
    this.#write(record);
  }

  schedule(now: number): void {
    this.#write(this.#begin(RecordKind.schedule).f64(now));
  }

  update(now: number, numEntries: number, { tokens, counts, numTokens, errors }: LoggedTokens): void {
    const record = this.#begin(RecordKind.update).f64(now).u32(numEntries);
    record.words(counts, numEntries).words(tokens, numTokens);
    this.#write(errors === undefined ? record : record.bytes(errors.subarray(0, numEntries)));
  }

  drafts(numEntries: number, { tokens, counts, numTokens }: LoggedTokens): void {
    const record = this.#begin(RecordKind.drafts).u32(numEntries);
    this.#write(record.words(counts, numEntries).words(tokens, numTokens));
  }

  replacedDrafts(step: number, numEntries: number, { tokens, counts, numTokens }: LoggedTokens): void {
    const record = this.#begin(RecordKind.replacedDrafts).u32(step).u32(numEntries);
    this.#write(record.words(counts, numEntries).words(tokens, numTokens));
  }

  reset({ resetRunning, resetConnector }: Required<ResetOptions>): void {
    const record = this.#begin(RecordKind.reset).u32(resetRunning ? 1 : 0);
    this.#write(record.u32(resetConnector ? 1 : 0));
  }

  connector(answer: ConnectorAnswer): void {
    this.#write(this.#begin(RecordKind.connector).bytes(json(answer)));
  }

  transfers(now: number, output: ParsedOutput, withUpdate: boolean): void {
    const { workerMetadata: _metadata, ...reports } = output;
    const record = this.#begin(RecordKind.transfers)
      .f64(now)
      .u32(withUpdate ? 1 : 0);
    this.#write(record.bytes(json(reports)));
  }

  fence(now: number, child: number | undefined, begunStep: number): void {
    const record = this.#begin(RecordKind.fence).f64(now);
    this.#write(record.f64(child ?? -1).f64(begunStep));
  }

  pins(pinned: boolean, blocks: Int32Array): void {
    this.#write(
      this.#begin(RecordKind.pins)
        .u32(pinned ? 1 : 0)
        .words(blocks),
    );
  }

  use(begun: boolean, use: BlockUse): void {
    this.#write(
      this.#begin(RecordKind.use)
        .u32(begun ? 1 : 0)
        .bytes(json(use)),
    );
  }

  wake(handle: number): void {
    this.#write(this.#begin(RecordKind.wake).f64(handle));
  }

  pause(mode: 'none' | 'new' | 'all'): void {
    this.#write(this.#begin(RecordKind.pause).u32(['none', 'new', 'all'].indexOf(mode)));
  }

  stepFailed(now: number, numEntries: number): void {
    this.#write(this.#begin(RecordKind.stepFailed).f64(now).u32(numEntries));
  }

  hold(now: number, use: BlockUse): void {
    this.#write(this.#begin(RecordKind.hold).f64(now).bytes(json(use)));
  }

  complete(now: number, use: BlockUse): void {
    this.#write(this.#begin(RecordKind.complete).f64(now).bytes(json(use)));
  }

  #begin(kind: RecordKind): RecordBytes {
    return this.#record.begin(kind);
  }

  #write(record: RecordBytes): void {
    this.#sink.write(record.end());
  }
}

function json(value: unknown): Uint8Array {
  return encoder.encode(JSON.stringify(value));
}

/** u32 length of the JSON, the padded JSON, the prompt as i32. */
function withPrompt(record: RecordBytes, rest: object, prompt: Int32Array): RecordBytes {
  const meta = json(rest);
  return record.u32(meta.length).bytes(meta).pad().words(prompt);
}

/** The number of bytes up to the next multiple of four. */
export function padding(length: number): number {
  return (4 - (length % 4)) % 4;
}
