import type { Anomalies } from '../../base/anomalies.js';
import { parseChunk } from '../../scheduler/calls/parse-request.js';
import type { ChunkInput } from '../../scheduler/request/session.js';
import type { Chunk } from '../transport/chunk.js';
import type { RequestKey } from '../transport/messages.js';
import type { PipelineRequest } from './pipeline-request.js';

/** The state of a session's input. */
interface Input {
  numSent: number;
  isOver: boolean;
}

/** The clients' inputs to their sessions: chunks for the first stage, and the end of the input. */
export class SessionInputs {
  readonly #anomalies: Anomalies;
  readonly #send: (request: PipelineRequest, chunk: Chunk) => boolean;
  readonly #open = new Map<RequestKey, Input>();

  /**
   * @param send sends a chunk to the first stage; false: it cannot be sent, and the request has
   * failed
   */
  constructor(anomalies: Anomalies, send: (request: PipelineRequest, chunk: Chunk) => boolean) {
    this.#anomalies = anomalies;
    this.#send = send;
  }

  /** A session begins. */
  open(key: RequestKey): void {
    this.#open.set(key, { numSent: 0, isOver: false });
  }

  /** A session has ended. */
  forget(key: RequestKey): void {
    this.#open.delete(key);
  }

  /** See `PipelineStream.addChunk`. @throws ERR_BLOCKSTEP_BAD_ARG */
  add(request: PipelineRequest, chunk: ChunkInput): 'sent' | 'skipped' {
    const { prompt: tokens, stops, arrivalTime, params } = parseChunk(chunk);
    const fields = { ...stops, ...(arrivalTime === undefined ? {} : { arrivalTime }), params };
    return this.#give(request, { tokens, isLast: false, fields });
  }

  /** See `PipelineStream.endInput`. */
  end(request: PipelineRequest): 'sent' | 'skipped' {
    return this.#give(request, { tokens: new Int32Array(0), isLast: true, fields: {} });
  }

  #give(request: PipelineRequest, chunk: Pick<Chunk, 'tokens' | 'isLast' | 'fields'>) {
    const { id, key, ended } = request;
    const input = this.#open.get(key);
    if (input === undefined || input.isOver) {
      const reason = ended
        ? 'chunk-finished'
        : input === undefined
          ? 'chunk-not-resumable'
          : 'chunk-after-end';
      this.#anomalies.report(reason, `a chunk for request ${id}`);
      return 'skipped';
    }
    input.isOver = chunk.isLast;
    return this.#send(request, { ...chunk, extras: null, number: ++input.numSent }) ? 'sent' : 'skipped';
  }
}
