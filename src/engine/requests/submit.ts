// Accepts requests and chunks: checks them, gives them to the scheduler, and gives clients their
// streams.
import { channels } from '../../base/channels.js';
import { BlockstepError, badArgument, describeError } from '../../base/errors.js';
import { checkFields, parseId } from '../../scheduler/calls/parse-request.js';
import type { Grammar } from '../../scheduler/request/grammar.js';
import type { ParsedRequest, Request } from '../../scheduler/request/request.js';
import type { ChunkInput, ChunkOutcome, EndOutcome } from '../../scheduler/request/session.js';
import type { Scheduler } from '../../scheduler/scheduler.js';
import type { EngineState } from '../state/engine-state.js';
import { RequestStream, type StreamCalls } from '../streams/request-stream.js';
import { Signals } from '../streams/signals.js';
import { StreamBuffer } from '../streams/stream-buffer.js';
import { isAborted, parseSignal, type SubmitInput, type SubmitOptions } from '../streams/submission.js';
import type { SubmitPlace } from '../streams/submit-place.js';
import { abortStream, drainAborts, stopStream } from './abort.js';
import { checkRoom, hasBounds } from './overload.js';

/** The checked fields of a request or a chunk that the executor may refuse. */
interface Parsed {
  readonly prompt: Int32Array;
  readonly params?: unknown;
  readonly grammar?: Grammar | null;
  readonly adapter?: string;
}

/**
 * Accepts requests and chunks: checks them, passes them to the scheduler, and streams to their
 * clients.
 */
export class Submitter {
  readonly #e: EngineState;
  readonly #calls: StreamCalls;
  readonly #signals: Signals;
  readonly #hasBounds: boolean;
  #lastId = 0;

  constructor(e: EngineState) {
    this.#e = e;
    this.#calls = {
      abort: (stream, reason) => abortStream(e, stream, reason),
      stop: (stream, reason) => stopStream(e, stream, reason),
      addChunk: (stream, chunk) => this.#addChunk(stream, chunk),
      endInput: (stream) => this.#endInput(stream),
    };
    this.#signals = new Signals(this.#calls.abort);
    this.#hasBounds = hasBounds(e.config);
  }

  /** @throws ERR_BLOCKSTEP_SHUTDOWN, ERR_BLOCKSTEP_DISPOSED, or the code that the engine broke with */
  checkOpen(): void {
    const e = this.#e;
    // After the begin of a shutdown every refusal is ERR_BLOCKSTEP_SHUTDOWN, also when the engine
    // is disposed.
    if (!e.disposed || !e.draining) e.checkUsable();
    if (e.draining) {
      const what = e.disposed ? 'was shut down' : 'is shutting down';
      throw new BlockstepError('ERR_BLOCKSTEP_SHUTDOWN', `the engine ${what}`);
    }
  }

  /** See `Engine.submit`. @param place the place in the client's code that submitted the request; null = it was not noted */
  submit(input: SubmitInput, options: SubmitOptions, place: SubmitPlace | null): RequestStream {
    const e = this.#e;
    let signal: AbortSignal | null;
    let added: Request;
    try {
      this.checkOpen();
      signal = parseSignal(options);
      if (signal !== null && isAborted(signal)) return this.#stillborn(input, signal.reason);
      // The id of an aborted request can be reused at once, before the next step.
      if (!e.busy) drainAborts(e);
      added = e.change((scheduler) => scheduler.addParsed(this.#parse(scheduler, input)));
    } catch (error) {
      this.#giveBack(input);
      throw error;
    }
    const stream = new StreamBuffer(added, e.rounds, e.streams.totals, place);
    e.streams.add(stream);
    // A connector may abort the request inside its notification of it.
    const { aborts } = e.scheduler;
    if (aborts.has(added)) abortStream(e, stream, aborts.reasonOf(added));
    if (signal !== null) this.#watch(signal, stream);
    if (channels.submit.hasSubscribers) channels.submit.publish({ id: added.id, handle: added.handle });
    e.poke();
    return new RequestStream(stream, this.#calls);
  }

  /**
   * Reads a request once, and checks it: the scheduler checks its fields, the engine checks the
   * executor's limits and the room in the queue.
   */
  #parse(scheduler: Scheduler, input: SubmitInput): ParsedRequest {
    return scheduler.during(() => {
      const parsed = scheduler.parse(input, this.#newId);
      if (parsed.resumable === true && this.#e.config.limits.canRollBack === false)
        throw badArgument('resumable', 'true', 'false, since the executor cannot roll back');
      this.#askExecutor(parsed);
      if (this.#hasBounds) checkRoom(this.#e, parsed.prompt.length);
      return parsed;
    });
  }

  /**
   * Asks the executor whether it can compute a request or a chunk. @throws ERR_BLOCKSTEP_BAD_ARG,
   * or the error of the executor
   */
  #askExecutor({ prompt, params, grammar = null, adapter = '' }: Parsed): void {
    const { checkRequest } = this.#e.config;
    if (checkRequest === null) return;
    try {
      checkRequest({ prompt, params, grammar, adapter });
    } catch (error) {
      if (error instanceof BlockstepError) throw error;
      const message = `the executor refuses the request: ${describeError(error)}`;
      throw new BlockstepError('ERR_BLOCKSTEP_BAD_ARG', message, { cause: error });
    }
  }

  /** Gives a session its next chunk: `RequestStream.addChunk`. */
  #addChunk(stream: StreamBuffer, input: ChunkInput): ChunkOutcome {
    const e = this.#e;
    e.checkUsable();
    if (stream.ended) return 'skipped';
    const { request } = stream;
    const { grammar, adapter, session } = request;
    const outcome = e.change((scheduler) => {
      // The scheduler counts a chunk that no session takes.
      if (session === null || session.ended) return scheduler.addChunk(request.handle, input);
      const chunk = scheduler.during(() => {
        const parsed = scheduler.parseChunk(request, input);
        this.#askExecutor({ ...parsed, grammar, adapter });
        return parsed;
      });
      return scheduler.addParsedChunk(request, chunk);
    });
    e.poke();
    return outcome;
  }

  /**
   * Ends the input of a session: `RequestStream.endInput`. A session that waits for input ends now:
   * the scheduler ends it as aborted and without a row of outputs, as vLLM does. The client gets
   * the finish reason of the last answer.
   */
  #endInput(stream: StreamBuffer): EndOutcome {
    const e = this.#e;
    e.checkUsable();
    if (stream.ended) return 'skipped';
    const outcome = e.change((scheduler) => scheduler.endSession(stream.request.handle));
    if (outcome === 'ended') {
      e.streams.remove(stream);
      stream.end(stream.lastAnswer ?? 'abort', stream.request.finishedAt);
    }
    e.poke();
    return outcome;
  }

  /**
   * Returns the transfer params of a refused request to the connector. The client receives only the
   * reason of the refusal.
   */
  #giveBack(input: SubmitInput): void {
    const e = this.#e;
    if (e.scheduler.config.connector === null || e.disposed || e.poison !== null) return;
    try {
      const { transferParams } = input;
      if (transferParams !== undefined) e.forClient((scheduler) => scheduler.giveBack(transferParams));
    } catch {
      // The value is not transfer params, or the engine cannot be called now.
    }
  }

  /**
   * Ties a stream to a signal. An object that passes for a signal may refuse a listener; then the
   * request is aborted.
   */
  #watch(signal: AbortSignal, stream: StreamBuffer): void {
    try {
      this.#signals.watch(signal, stream);
    } catch (error) {
      this.#calls.abort(stream, undefined);
      throw error;
    }
  }

  /**
   * The stream of a request whose signal was aborted before it was submitted. The scheduler never
   * receives such a request.
   */
  #stillborn(input: SubmitInput, reason: unknown): RequestStream {
    checkFields(input);
    const id = parseId(input, this.#newId);
    const now = this.#e.now();
    const request = { id, handle: -1, slot: -1, maxTokens: 1, numPromptTokens: 0, addedAt: now } as Request;
    const stream = new StreamBuffer(request, this.#e.rounds, this.#e.streams.totals);
    stream.cutOff(reason, now);
    this.#giveBack(input);
    return new RequestStream(stream, this.#calls);
  }

  readonly #newId = (): string => {
    for (;;) {
      const id = `request-${++this.#lastId}`;
      if (this.#e.scheduler.get(id) === undefined) return id;
    }
  };
}
