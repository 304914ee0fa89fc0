import { BlockstepError, show } from '../../base/errors.js';
import { INSPECT, showFacts } from '../../base/inspect.js';
import type { ChunkInput } from '../../scheduler/request/session.js';
import type { OutputBuffer } from './output-buffer.js';
import type { PipelineOutput, PipelineResult } from './outputs.js';
import type { PipelineRequest } from './pipeline-request.js';

/** The calls of a stream to the party that submitted its request. */
export interface PipelineCalls {
  abort(request: PipelineRequest, reason: unknown): void;
  addChunk(request: PipelineRequest, chunk: ChunkInput): 'sent' | 'skipped';
  endInput(request: PipelineRequest): 'sent' | 'skipped';
}

/**
 * The handle of a request in a pipeline. It resembles `RequestStream`, with the outputs of every
 * requested stage. It is iterated by one reader, or awaited by `result()`. Exactly one of these
 * events ends it:
 * - All stages have ended. The last output is one of the last stage, with its `finishReason`, and
 *   does not `continue`.
 * - The request was aborted without a reason (`abort()`, leaving the loop). The last output has the
 *   `finishReason` `abort`.
 * - The request was aborted with a reason (the signal's, or `abort(reason)`). Unread outputs are
 *   dropped, and reading and `result` reject with this reason.
 * - A stage failed. Earlier outputs are delivered, then reading and `result` reject with a
 *   BlockstepError that names the stage.
 */
export class PipelineStream implements AsyncIterable<PipelineOutput>, AsyncDisposable {
  readonly #request: PipelineRequest;
  readonly #calls: PipelineCalls;
  #hasReader = false;

  /** @internal */
  constructor(request: PipelineRequest, calls: PipelineCalls) {
    this.#request = request;
    this.#calls = calls;
  }

  /** The request's external id. */
  get id(): string {
    return this.#request.id;
  }

  /** Whether the request has ended, in any way. Some of its outputs may be unread. */
  get ended(): boolean {
    return this.#request.ended;
  }

  /**
   * Aborts the request in all stages; does nothing if it has ended. Readers are told at once.
   * @param reason readers are rejected with it; without a reason reading ends with `finishReason: 'abort'`
   */
  abort(reason?: unknown): void {
    this.#calls.abort(this.#request, reason);
  }

  /**
   * Gives the first stage its next input, for a request submitted as `resumable`.
   * @returns `skipped` if the request has ended, is no session, or its input has ended
   * @throws ERR_BLOCKSTEP_BAD_ARG. A chunk that cannot be sent, or does not fit the stage, fails
   * the request
   */
  addChunk(chunk: ChunkInput): 'sent' | 'skipped' {
    return this.#calls.addChunk(this.#request, chunk);
  }

  /** Ends the input of a session. The request ends when all stages have computed their input. */
  endInput(): 'sent' | 'skipped' {
    return this.#calls.endInput(this.#request);
  }

  /**
   * Returns the results of all stages; resolves when the request has ended. Independent of reading.
   * Every call returns the same promise.
   */
  result(): Promise<PipelineResult> {
    return this.#request.result();
  }

  /**
   * The reader of the stream. A stream has one reader.
   * @throws ERR_BLOCKSTEP_BUSY while a reader has not had the last output, and after one left before the last output
   */
  [Symbol.asyncIterator](): AsyncIterator<PipelineOutput, undefined> & AsyncIterable<PipelineOutput> {
    const { buffer } = this.#request;
    if (buffer.wasLeft || (this.#hasReader && !buffer.isReadOut)) {
      const why = buffer.wasLeft ? 'had a reader that left before the last output' : 'has a reader already';
      throw new BlockstepError(
        'ERR_BLOCKSTEP_BUSY',
        `the stream of request ${show(this.id)} ${why}: await result()`,
      );
    }
    this.#hasReader = true;
    return reader(buffer, () => this.#calls.abort(this.#request, undefined));
  }

  /** Aborts the request if it has not ended. */
  [Symbol.asyncDispose](): Promise<void> {
    this.abort();
    return Promise.resolve();
  }

  [INSPECT](depth: number, options: object): string {
    return showFacts('PipelineStream', depth, options, { id: this.id, ended: this.ended });
  }
}

function reader(buffer: OutputBuffer, abort: () => void) {
  const leave = (): void => {
    buffer.leave();
    abort();
  };
  return {
    next: () => buffer.next(),
    return: () => {
      leave();
      return Promise.resolve({ done: true as const, value: undefined });
    },
    throw: (error?: unknown) => {
      leave();
      return Promise.reject(error);
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}
