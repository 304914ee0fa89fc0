import { type InspectOptions, inspect } from 'node:util';
import { BlockstepError, describeError, show } from '../../base/errors.js';
import type { ChunkInput, ChunkOutcome, EndOutcome } from '../../scheduler/request/session.js';
import type { RequestOutput, RequestResult, StopReason } from './outputs.js';
import type { StreamBuffer } from './stream-buffer.js';

/** What a stream asks of its engine. */
export interface StreamCalls {
  /** Ends the request of a stream; `reason` undefined = without a reason. */
  abort(stream: StreamBuffer, reason: unknown): void;
  /** Ends the request of a stream with `stop`. */
  stop(stream: StreamBuffer, reason: unknown): void;
  addChunk(stream: StreamBuffer, chunk: ChunkInput): ChunkOutcome;
  endInput(stream: StreamBuffer): EndOutcome;
}

/**
 * The stream of a submitted request: what it brings. To be read by one `for await`, or as a whole by `result()`, or both.
 *
 * How reading ends:
 * - with `stop` or `length`: the last output carries the `finishReason`; after `stop(reason)` likewise, behind all that came;
 * - aborted without a reason (leaving the loop, `abort()`, `engine.abort(id)`, the end of a shutdown): likewise, `abort`;
 * - aborted with a reason (the signal's, or that of `abort(reason)`): what was not read yet is dropped, and `next` and
 *   `result` reject with that very reason;
 * - failed: what came before is delivered, then both reject with a BlockstepError whose cause says why, and
 *   whose stack ends with where the request was submitted (as many frames as `Error.stackTraceLimit` says; 0 notes none).
 *
 * A reader may be as slow as it likes: what it has not read waits for it as one growing chunk, at most `maxTokens` tokens.
 * Of a session each answer ends with an output that has a `finishReason` and `continues`; it may keep `maxTokens` for each.
 * A stream that nobody reads, or that is dropped, stalls nothing: its request runs to its end.
 */
export class RequestStream implements AsyncIterable<RequestOutput>, AsyncDisposable {
  readonly #stream: StreamBuffer;
  readonly #calls: StreamCalls;
  #hasReader = false;

  /** @internal */
  constructor(stream: StreamBuffer, calls: StreamCalls) {
    this.#stream = stream;
    this.#calls = calls;
  }

  /** The request's external id. */
  get id(): string {
    return this.#stream.request.id;
  }

  /** Names this incarnation of the request, as `Scheduler.add` gave it out; -1 if it was aborted before it was added. */
  get handle(): number {
    return this.#stream.request.handle;
  }

  /** Tokens generated so far, read or not. */
  get numOutputTokens(): number {
    return this.#stream.numTokens;
  }

  /** Whether the request has ended, in whatever way. Some of its tokens may not have been read yet. */
  get ended(): boolean {
    return this.#stream.ended;
  }

  /**
   * Aborts the request; does nothing if it has ended. Its readers are told at once; its blocks go back before the next step.
   * @param reason what readers shall be rejected with; without one reading ends with `finishReason: 'abort'`
   */
  abort(reason?: unknown): void {
    this.#calls.abort(this.#stream, reason);
  }

  /**
   * Ends the request with `finishReason: 'stop'`: its client has found the end in the text, for instance a stop string. Nothing
   * if it has ended. Its readers are told at once, behind the tokens that have come; later ones are dropped. Its blocks go back
   * before the next step, and what is cached of it stays cached. To the scheduler and a connector it is an abort, as in vLLM.
   * @param reason becomes the `stopReason`; without one that is null
   * @throws ERR_BLOCKSTEP_BAD_ARG for a bad reason, and for a session whose input has not ended: what its next chunk would
   * follow is what was computed, which the end of a text does not take back. Nothing was changed
   */
  stop(reason?: StopReason): void {
    this.#calls.stop(this.#stream, reason);
  }

  /**
   * Continues a session, a request submitted as `resumable`: the text so far and the chunk become the prompt of the next answer. A
   * chunk that comes before the last answer has ended is queued.
   * @returns `skipped` if the request has ended or is no session
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_UNFIT; nothing was changed
   */
  addChunk(chunk: ChunkInput): ChunkOutcome {
    return this.#calls.addChunk(this.#stream, chunk);
  }

  /** No chunk will come any more: the request ends with the answer to the last one, or now, if that has ended. */
  endInput(): EndOutcome {
    return this.#calls.endInput(this.#stream);
  }

  /**
   * All tokens, how it ended, counts and times, once the request has ended. Not disturbed by reading, and the same promise
   * for everyone who asks.
   */
  result(): Promise<RequestResult> {
    return this.#stream.result();
  }

  /**
   * The reader of the stream. There is one, and it gets every output once. After it had the last output a new reader finds the
   * stream at its end. `result()` is for everyone, at any time.
   * @throws ERR_BLOCKSTEP_BUSY while there is a reader that has not had the last output, and behind one that left before
   * it had: its request was aborted
   */
  [Symbol.asyncIterator](): OutputIterator {
    if (this.#stream.wasLeft) throw new BlockstepError('ERR_BLOCKSTEP_BUSY', wasLeft(this.id));
    if (this.#hasReader && !this.#stream.isReadOut)
      throw new BlockstepError('ERR_BLOCKSTEP_BUSY', hasReader(this.id));
    this.#hasReader = true;
    return new OutputIterator(this.#stream, this.#calls);
  }

  /** Aborts the request if it has not ended. */
  [Symbol.asyncDispose](): Promise<void> {
    this.abort();
    return Promise.resolve();
  }

  /** For `console.log`: its id, its state, how many tokens were generated, and how it ended. */
  [inspect.custom](depth: number, options: InspectOptions): string {
    return #stream in this
      ? inspectStream('RequestStream', this.#stream, depth, options)
      : 'RequestStream {}';
  }
}

/** Reads a request's outputs. Several calls of `next` may wait at once; they are answered in their order. */
export class OutputIterator implements AsyncIterator<RequestOutput, undefined> {
  readonly #stream: StreamBuffer;
  readonly #calls: StreamCalls;

  /** @internal */
  constructor(stream: StreamBuffer, calls: StreamCalls) {
    this.#stream = stream;
    this.#calls = calls;
  }

  /** All tokens since the call before, as soon as there are any. */
  next(): Promise<IteratorResult<RequestOutput, undefined>> {
    return this.#stream.next();
  }

  /** Leaves the stream: aborts the request if it has not ended. What was not read stays in `result()`. */
  return(): Promise<IteratorResult<RequestOutput, undefined>> {
    this.#leave();
    return Promise.resolve({ done: true, value: undefined });
  }

  /** As `return`, but rejects with `error`. */
  throw(error?: unknown): Promise<IteratorResult<RequestOutput, undefined>> {
    this.#leave();
    return Promise.reject(error);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** For `console.log`: what its stream shows. */
  [inspect.custom](depth: number, options: InspectOptions): string {
    return #stream in this
      ? inspectStream('OutputIterator', this.#stream, depth, options)
      : 'OutputIterator {}';
  }

  #leave(): void {
    this.#stream.close();
    this.#calls.abort(this.#stream, undefined);
  }
}

function hasReader(id: string): string {
  return (
    `the stream of request ${show(id)} has a reader already, which gets every output once: ` +
    'await result() for the whole, as often as you like, or hand on what the reader gets'
  );
}

function wasLeft(id: string): string {
  return (
    `the reader of request ${show(id)} left before it had the last output, which aborts a request that goes on: nothing comes ` +
    'any more, and result() has what had come; to go on reading elsewhere keep one iterator, stream[Symbol.asyncIterator](), ' +
    'and call its next()'
  );
}

function inspectStream(name: string, stream: StreamBuffer, depth: number, options: InspectOptions): string {
  if (depth < 0) return `[${name}]`;
  const { request, numTokens, ended, reason, wasCutOff, failure } = stream;
  const state = ended ? 'finished' : request.container === 'running' ? 'running' : 'waiting';
  const shown = { id: request.id, state, tokens: numTokens, reason: reason ?? endWithout(ended, wasCutOff) };
  const why = ended && reason === null ? { error: describeError(failure) } : {};
  return `${name} ${inspect({ ...shown, ...why }, options)}`;
}

/** How a stream without an end reason ended: `abort` with a reason of its client's, or `error`; null while it lives. */
function endWithout(ended: boolean, wasCutOff: boolean): 'abort' | 'error' | null {
  if (!ended) return null;
  return wasCutOff ? 'abort' : 'error';
}
