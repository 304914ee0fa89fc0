import { type InspectOptions, inspect } from 'node:util';
import { BlockstepError, badArgument, describeError, show } from '../../base/errors.js';
import type { ChunkInput, ChunkOutcome, EndOutcome } from '../../scheduler/request/session.js';
import type { RequestOutput, RequestResult, StopReason } from '../outputs/outputs.js';
import type { StreamBuffer } from './stream-buffer.js';

/** The calls of a stream to its engine. */
export interface StreamCalls {
  /** Aborts the request of a stream; `reason` undefined = without a reason. */
  abort(stream: StreamBuffer, reason: unknown): void;
  /** Ends the request of a stream with `stop`. */
  stop(stream: StreamBuffer, reason: unknown): void;
  addChunk(stream: StreamBuffer, chunk: ChunkInput): ChunkOutcome;
  endInput(stream: StreamBuffer): EndOutcome;
}

/**
 * The stream of a submitted request's tokens. Read it by one `for await`, as a whole by `result()`,
 * or both.
 *
 * How reading ends:
 * - the request ended with `stop` or `length`, or by `stop(reason)`: the last output has the
 *   `finishReason`;
 * - the request was aborted without a reason (leaving the loop, `abort()`, `engine.abort(id)`, the
 *   end of a shutdown): the last output has the `finishReason` `abort`;
 * - the request was aborted with a reason (the signal's, or `abort(reason)`): unread tokens are
 *   dropped, and `next` and `result` reject with that very reason;
 * - the request failed: its tokens are delivered, then `next` and `result` reject with a
 *   BlockstepError. Its cause gives the reason, and its stack ends with the place of the submission
 *   (with `Error.stackTraceLimit` frames; 0 = none).
 *
 * A reader may be slow: unread tokens wait as one growing chunk, at most `maxTokens` tokens. In a
 * session each answer ends with an output that has a `finishReason` and `continues`, and up to
 * `maxTokens` tokens may wait per answer. A stream without a reader stalls nothing: its request
 * runs to its end.
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

  /** The request's handle, as given out by `Scheduler.add`; -1 if the request was aborted before it was added. */
  get handle(): number {
    return this.#stream.request.handle;
  }

  /** Tokens generated so far, read or not. */
  get numOutputTokens(): number {
    return this.#stream.numTokens;
  }

  /** Whether the request has ended, in any way. Some of its tokens may be unread. */
  get ended(): boolean {
    return this.#stream.ended;
  }

  /**
   * Aborts the request; does nothing if the request has ended. Readers are notified at once; blocks
   * are freed before the next step.
   * @param reason readers are rejected with it; without a reason reading ends with
   * `finishReason: 'abort'`
   */
  abort(reason?: unknown): void {
    this.#calls.abort(this.#stream, reason);
  }

  /**
   * Ends the request with `finishReason: 'stop'`, for a client that found the end in the text, such
   * as a stop string. Does nothing if the request has ended. Readers get the end at once, after the
   * tokens that have come; later tokens are dropped. The blocks are freed before the next step, and
   * cached blocks stay cached. The scheduler and a connector see an abort, as in vLLM.
   * @param reason becomes the `stopReason`; without a reason `stopReason` is null
   * @throws ERR_BLOCKSTEP_BAD_ARG for a bad reason, and for a session whose input has not ended.
   * The next chunk would follow all computed tokens, also those after the stop. Nothing was changed
   */
  stop(reason?: StopReason): void {
    this.#calls.stop(this.#stream, reason);
  }

  /**
   * Continues a session (a request submitted as `resumable`): the text so far plus the chunk become the prompt of the next answer. A
   * chunk is queued while an answer is being generated.
   * @returns `skipped` if the request has ended or is no session
   * @throws ERR_BLOCKSTEP_BAD_ARG, ERR_BLOCKSTEP_UNFIT; nothing was changed
   */
  addChunk(chunk: ChunkInput): ChunkOutcome {
    return this.#calls.addChunk(this.#stream, chunk);
  }

  /** Ends the input of a session: the request ends with the answer to the last chunk, or now, if that answer has ended. */
  endInput(): EndOutcome {
    return this.#calls.endInput(this.#stream);
  }

  /**
   * All tokens, the finish reason, counts and times; resolves when the request has ended. Independent of reading. Every call returns the
   * same promise.
   */
  result(): Promise<RequestResult> {
    return this.#stream.result();
  }

  /**
   * The reader of the stream. A stream has one reader, which gets every output once. After the last output was read, a new reader finds
   * the stream at its end. `result()` can be called by everyone, at any time.
   * @throws ERR_BLOCKSTEP_BUSY while a reader has not had the last output, and after a reader left before the last output (which
   * aborted the request)
   */
  [Symbol.asyncIterator](): OutputIterator {
    if (this.#stream.wasLeft) throw new BlockstepError('ERR_BLOCKSTEP_BUSY', wasLeft(this.id));
    if (this.#hasReader && !this.#stream.isReadOut)
      throw new BlockstepError('ERR_BLOCKSTEP_BUSY', hasReader(this.id));
    this.#hasReader = true;
    return new OutputIterator(this.#stream, this.#calls);
  }

  /**
   * Makes a function the stream's reader, instead of `for await`, for code that serves many
   * streams: no promise is made per output. It is called when there is something to `read`, also
   * the end. This happens at most once per step, when the executor has received its next step. It
   * may read now, later or never, and may call all methods of the engine but `step`. An error that
   * it throws becomes an uncaught exception.
   * @throws ERR_BLOCKSTEP_BUSY if the stream has a reader, or had one; ERR_BLOCKSTEP_BAD_ARG
   */
  onOutput(listener: () => void): void {
    const stream = this.#stream;
    if (typeof listener !== 'function') throw badArgument('listener', show(listener), 'a function');
    if (stream.wasLeft) throw new BlockstepError('ERR_BLOCKSTEP_BUSY', wasLeft(this.id));
    if (this.#hasReader) throw new BlockstepError('ERR_BLOCKSTEP_BUSY', hasReader(this.id));
    this.#hasReader = true;
    stream.listen(listener);
  }

  /**
   * All tokens since the previous output, without waiting, for a reader by `onOutput`; the last output has the `finishReason`.
   * @returns null if nothing has come since, and after the last output
   * @throws once, in place of the last output: the reason of the abort, or the failure of the request
   * @throws ERR_BLOCKSTEP_BUSY if the stream has another reader
   */
  read(): RequestOutput | null {
    if (this.#stream.listener === null && this.#hasReader)
      throw new BlockstepError('ERR_BLOCKSTEP_BUSY', hasReader(this.id));
    return this.#stream.readNow();
  }

  /** Aborts the request if it has not ended. */
  [Symbol.asyncDispose](): Promise<void> {
    this.abort();
    return Promise.resolve();
  }

  /** For `console.log`: the request's id and state, its number of generated tokens, and how it ended. */
  [inspect.custom](depth: number, options: InspectOptions): string {
    return #stream in this
      ? inspectStream('RequestStream', this.#stream, depth, options)
      : 'RequestStream {}';
  }
}

/**
 * The reader of a request's outputs. Several calls of `next` may wait at once; they are answered in
 * order.
 */
export class OutputIterator implements AsyncIterator<RequestOutput, undefined> {
  readonly #stream: StreamBuffer;
  readonly #calls: StreamCalls;

  /** @internal */
  constructor(stream: StreamBuffer, calls: StreamCalls) {
    this.#stream = stream;
    this.#calls = calls;
  }

  /** All tokens since the previous output, as soon as there are any; at the end the last output. */
  next(): Promise<IteratorResult<RequestOutput, undefined>> {
    return this.#stream.next();
  }

  /** Leaves the stream: aborts the request if it has not ended. Unread tokens stay in `result()`. */
  return(): Promise<IteratorResult<RequestOutput, undefined>> {
    this.#leave();
    return Promise.resolve({ done: true, value: undefined });
  }

  /** As `return`, but rejects with `error`. */
  throw(error?: unknown): Promise<IteratorResult<RequestOutput, undefined>> {
    this.#leave();
    return Promise.reject(error);
  }

  /** The reader itself, for `for await`. */
  [Symbol.asyncIterator](): this {
    return this;
  }

  /** For `console.log`: the same as for its stream. */
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
    `the stream of request ${show(id)} already has a reader, and each output is delivered once: ` +
    'await result() for the whole, as often as you like, or pass on what this reader gets'
  );
}

function wasLeft(id: string): string {
  return (
    `the reader of request ${show(id)} left before the last output, which aborts an unfinished request: no more outputs ` +
    'come, and result() has the tokens so far; to continue reading elsewhere keep one iterator, stream[Symbol.asyncIterator](), ' +
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

/** How a stream without an end reason ended: `abort` (with a client's reason) or `error`; null while the stream lives. */
function endWithout(ended: boolean, wasCutOff: boolean): 'abort' | 'error' | null {
  if (!ended) return null;
  return wasCutOff ? 'abort' : 'error';
}
