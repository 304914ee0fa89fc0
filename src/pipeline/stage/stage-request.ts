import { BlockstepError, describeError, show } from '../../base/errors.js';
import type { OutputData } from '../../engine/outputs/outputs.js';
import type { ChunkInput } from '../../scheduler/request/session.js';
import type { ChunkTransferAdapter, Source } from '../chunks/chunk-transfer-adapter.js';
import type { Chunk } from '../transport/chunk.js';
import type {
  ClientMessage,
  StageEnd,
  StageFailure,
  StageMessage,
  StageSubmission,
} from '../transport/messages.js';
import type { StageConfig, StageFields } from './stage-options.js';
import type { StageScheduler, Work, WorkEnd } from './stage-scheduler.js';

/** The stage's parts that a request needs. */
export interface StageParts {
  readonly config: StageConfig;
  readonly scheduler: StageScheduler;
  readonly adapter: ChunkTransferAdapter;
  /** See `Connection.send`. */
  readonly send: (to: string, message: StageMessage | ClientMessage) => string | null;
  /** The clock, in milliseconds. */
  readonly now: () => number;
  /** Called when the stage has finished all work of the request. */
  readonly forget: (request: StageRequest) => void;
}

/**
 * One request in one stage, from its submission until all its outputs were sent. It connects the
 * request's work in the engine with its chunks in the adapter. The client is told once how the
 * request ended: when the stage has finished all its work, or when it fails. A client that was not
 * told can ask the stage which requests it has.
 */
export class StageRequest {
  readonly submission: StageSubmission;
  readonly #parts: StageParts;
  /** Null before the work has begun, and when it is over. */
  #work: Work | null = null;
  /** How the work ended, while its chunks are still being sent; null before. */
  #end: StageEnd | null = null;
  /** Whether the client was told of the end, or knows it. */
  #isOver = false;
  /**
   * Why a message of the request can never be sent; null: all could be sent. The request then fails
   * instead of continuing or ending.
   */
  #unsendable: string | null = null;
  /** Number of outputs that were sent to the client. */
  #numOutputs = 0;
  readonly #begunAt: number;
  /** When the first token arrived; -1: none has. */
  #firstTokenAt = -1;

  constructor(submission: StageSubmission, parts: StageParts) {
    this.submission = submission;
    this.#parts = parts;
    this.#begunAt = parts.now();
  }

  /** Begins the work, or tells the client why not. */
  begin(): void {
    const { adapter, scheduler, config } = this.#parts;
    const { key, id, from, to, prompt, fields } = this.submission;
    if (to !== null)
      adapter.send(key, { to: nameOf(to), send: (chunk) => this.#send(to, { kind: 'chunk', key, chunk }) });
    if (from !== null) adapter.receive(key, this.#source(from), prompt.length > 0);
    const work = {
      // The name contains the key, because the id may be reused while this request is still being
      // aborted.
      ...{ id: `${id}#${key}`, prompt, isFed: from !== null },
      fields: { ...config.defaults, ...(fields as StageFields) },
    };
    try {
      this.#work = scheduler.begin(work, {
        output: (output) => this.#output(output),
        ended: (end) => this.#ended(end),
        failed: (error) => this.fail(error),
      });
    } catch (error) {
      this.fail(error);
    }
  }

  /** Ends the request without a message: its client has gone, or knows. */
  abort(): void {
    this.#isOver = true;
    this.#forget();
  }

  /** Ends the request with an error, and tells the client. */
  fail(error: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const { client, key } = this.submission;
    this.#forget();
    this.#parts.send(client, {
      kind: 'failed',
      key,
      stage: this.#parts.config.name,
      failure: asFailure(error),
    });
  }

  /**
   * Ends the request because it has waited too long. @param why the reason, as a part of the
   * message
   */
  stall(why: string): void {
    const { config } = this.#parts;
    const message = `request ${show(this.submission.id)} ${why}: stallMs of stage ${config.name} is ${config.stallMs}`;
    this.fail(new BlockstepError('ERR_BLOCKSTEP_REQUEST', message));
  }

  /** Chunks up to this one were computed by the next stage. */
  taken(number: number): void {
    this.#parts.adapter.taken(this.submission.key, number);
    this.#endIfSent();
  }

  /** Describes what the request waits for. */
  explain(): string {
    const waits = this.#parts.adapter.explain(this.submission.key);
    if (this.#work === null) return waits ?? 'has ended';
    return waits ?? this.#work.explain();
  }

  #source(from: string): Source {
    const { key } = this.submission;
    return {
      from: nameOf(from),
      give: (chunk) => this.#give(chunk),
      taken: (number) => this.#parts.send(from, { kind: 'taken', key, number }),
    };
  }

  #give(chunk: Chunk): void {
    const work = this.#work;
    if (work === null) return;
    const { config, adapter } = this.#parts;
    const { key, id } = this.submission;
    try {
      const { number, tokens, extras, isLast, fields } = chunk;
      const input =
        fields === undefined
          ? config.input({ id, number, tokens, extras, isLast })
          : ofClient(tokens, fields);
      if (input === null || input === undefined || input.prompt?.length === 0) adapter.computed(key);
      else work.feed(input);
      if (isLast) work.end();
    } catch (error) {
      this.fail(error);
    }
  }

  #output(output: OutputData): void {
    const { config, adapter } = this.#parts;
    const { key, wants, client } = this.submission;
    const { tokens, extras, finishReason, stopReason } = output;
    if (this.#firstTokenAt < 0 && tokens.length > 0) this.#firstTokenAt = this.#parts.now();
    adapter.save(key, tokens, extras, finishReason !== null);
    if (wants) {
      const told = { tokens, extras, finishReason, stopReason };
      this.#send(client, {
        kind: 'output',
        key,
        stage: config.name,
        number: ++this.#numOutputs,
        output: told,
      });
    }
    if (this.#unsendable !== null) this.#failUnsendable(this.#unsendable);
    else if (finishReason !== null) adapter.computed(key);
  }

  #ended(end: WorkEnd): void {
    if (this.#isOver || this.#end !== null) return;
    this.#work = null;
    const { adapter } = this.#parts;
    const { key } = this.submission;
    const firstTokenMs = this.#firstTokenAt < 0 ? null : this.#firstTokenAt - this.#begunAt;
    this.#end = { ...end, firstTokenMs, endedMs: this.#parts.now() - this.#begunAt };
    adapter.cleanupReceiver(key);
    adapter.saveEnd(key);
    this.#endIfSent();
  }

  #endIfSent(): void {
    const { config, adapter, send } = this.#parts;
    const { key, client } = this.submission;
    if (this.#unsendable !== null) this.#failUnsendable(this.#unsendable);
    if (this.#isOver || this.#end === null || !adapter.isSent(key)) return;
    this.#isOver = true;
    this.#forget();
    const told = { numOutputs: this.#numOutputs, end: this.#end };
    send(client, { kind: 'ended', key, stage: config.name, ...told });
  }

  #send(to: string, message: StageMessage | ClientMessage): void {
    const why = this.#parts.send(to, message);
    if (why !== null) this.#unsendable ??= `its ${message.kind} for ${nameOf(to)} cannot be sent: ${why}`;
  }

  #failUnsendable(why: string): void {
    this.fail(new BlockstepError('ERR_BLOCKSTEP_REQUEST', why));
  }

  #forget(): void {
    const work = this.#work;
    this.#work = null;
    this.#parts.adapter.cancel(this.submission.key);
    this.#parts.forget(this);
    work?.abort();
  }
}

/** Returns the stage name of a party, without the prefix `stage/`. */
function nameOf(party: string): string {
  return party.startsWith('stage/') ? party.slice('stage/'.length) : 'the client';
}

function asFailure(error: unknown): StageFailure {
  if (error instanceof BlockstepError) return { code: error.code, message: error.message, error };
  return { code: 'ERR_BLOCKSTEP_REQUEST', message: describeError(error) };
}

/** Converts a client's chunk to an input; null: it only ends the input. */
function ofClient(prompt: Int32Array, fields: Omit<ChunkInput, 'prompt'>): ChunkInput | null {
  return prompt.length === 0 ? null : { ...fields, prompt };
}
