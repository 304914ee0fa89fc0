import { channels } from '../../base/channels.js';
import { BlockstepError, badArgument, show } from '../../base/errors.js';
import type { Request, RequestInput } from '../../scheduler/request/request.js';
import type { EngineState } from '../state/engine-state.js';
import { RequestStream, type StreamCalls } from '../streams/request-stream.js';
import { Signals } from '../streams/signals.js';
import { StreamBuffer } from '../streams/stream-buffer.js';
import {
  isAborted,
  type SubmitInput,
  type SubmitOptions,
  takeSignal,
  takeSubmission,
} from '../streams/submission.js';
import type { SubmitPlace } from '../streams/submit-place.js';
import { abortStream, drainAborts, stopStream } from './abort.js';
import { checkRoom, hasBounds } from './overload.js';
import { checkerOf } from './refusal.js';
import { addChunk, endInput } from './session-input.js';

/** Lets requests in: gives them to the scheduler, and streams to their clients. */
export class Submitter {
  readonly #e: EngineState;
  readonly #calls: StreamCalls;
  readonly #signals: Signals;
  #nextId = 1;

  constructor(e: EngineState) {
    this.#e = e;
    this.#calls = {
      abort: (stream, reason) => abortStream(e, stream, reason),
      stop: (stream, reason) => stopStream(e, stream, reason),
      addChunk: (stream, chunk) => addChunk(e, stream, chunk),
      endInput: (stream) => endInput(e, stream),
    };
    this.#signals = new Signals(this.#calls.abort);
    const check = checkerOf(e.config);
    const hasRoomToCheck = hasBounds(e.config);
    e.scheduler.onAdd(
      (request) => {
        check(request);
        if (hasRoomToCheck) checkRoom(e, request.prompt.length);
      },
      (chunk, { grammar, adapter }) => check({ ...chunk, grammar, adapter }),
    );
  }

  /** @throws ERR_BLOCKSTEP_SHUTDOWN, ERR_BLOCKSTEP_DISPOSED, or the code that the engine broke with */
  checkOpen(): void {
    const e = this.#e;
    // After the begin of a shutdown every refusal is ERR_BLOCKSTEP_SHUTDOWN, also when the engine is disposed.
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
    let request: SubmitInput;
    try {
      this.checkOpen();
      signal = takeSignal(options);
      request = takeSubmission(input);
      if (request.resumable === true && e.config.limits.canRollBack === false)
        throw badArgument('resumable', 'true', 'false, since the executor cannot roll back');
      request.id ??= this.#newId();
      if (signal !== null && isAborted(signal)) {
        const stream = this.#stillborn(request.id, signal.reason);
        this.#giveBack(input);
        return stream;
      }
    } catch (error) {
      this.#giveBack(input);
      throw error;
    }
    const added = this.#add(request as RequestInput);
    const stream = new StreamBuffer(added, e.rounds, e.streams.totals, place);
    e.streams.add(stream);
    // A connector may abort the request while `scheduler.add` tells the connector of it.
    const { aborts } = e.scheduler;
    if (aborts.has(added)) abortStream(e, stream, aborts.reasonOf(added));
    if (signal !== null) this.#watch(signal, stream);
    if (channels.submit.hasSubscribers) {
      channels.submit.publish({ id: stream.request.id, handle: stream.request.handle });
    }
    e.poke();
    return new RequestStream(stream, this.#calls);
  }

  #add(request: RequestInput): Request {
    const e = this.#e;
    // The id of an aborted request can be reused at once, before the next step.
    if (!e.busy && typeof request.id === 'string' && this.#isAborted(request.id)) drainAborts(e);
    try {
      const handle = e.change((scheduler) => scheduler.add(request));
      return e.scheduler.getByHandle(handle) as Request;
    } catch (error) {
      // The connector was told of a request that is refused, and may have something to do.
      e.poke();
      throw error;
    }
  }

  /** Gives the transfer params back of a request that the scheduler never hears of. The client hears why, and nothing else. */
  #giveBack(input: SubmitInput): void {
    const e = this.#e;
    if (e.scheduler.config.connector === null || e.disposed || e.poison !== null) return;
    try {
      const { transferParams } = input;
      if (transferParams !== undefined) e.forClient((scheduler) => scheduler.giveBack(transferParams));
    } catch {
      // They are no params, or the engine cannot be called now.
    }
  }

  /** Ties a stream to a signal. An object that passes for a signal may refuse a listener: then the request is aborted. */
  #watch(signal: AbortSignal, stream: StreamBuffer): void {
    try {
      this.#signals.watch(signal, stream);
    } catch (error) {
      this.#calls.abort(stream, undefined);
      throw error;
    }
  }

  #isAborted(id: string): boolean {
    const { aborts } = this.#e.scheduler;
    const known = aborts.size === 0 ? undefined : this.#e.scheduler.get(id);
    return known !== undefined && aborts.has(known);
  }

  /** The stream of a request whose signal was aborted before it was submitted: the scheduler never hears of it. */
  #stillborn(id: unknown, reason: unknown): RequestStream {
    if (typeof id !== 'string') throw badArgument('id', show(id), 'a string');
    const now = this.#e.now();
    const request = { id, handle: -1, slot: -1, maxTokens: 1, numPromptTokens: 0, addedAt: now } as Request;
    const stream = new StreamBuffer(request, this.#e.rounds, this.#e.streams.totals);
    stream.cutOff(reason, now);
    return new RequestStream(stream, this.#calls);
  }

  #newId(): string {
    for (;;) {
      const id = `request-${this.#nextId++}`;
      if (this.#e.scheduler.get(id) === undefined) return id;
    }
  }
}
