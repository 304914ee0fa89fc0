import type { FinishReason } from '../../scheduler/request/status.js';
import type { ExecutorRequest } from '../executor/executor.js';
import type { StopReason } from './outputs.js';

/** How a request ended, or how one answer of a session ended. */
export interface OutputEnd {
  /** `error` for a request that failed. */
  readonly finishReason: FinishReason;
  /** true: only the answer to one chunk of a session ended, and the session goes on. */
  readonly continues: boolean;
  /** The cause of the end `stop`: the stop token, or the reason given to `RequestStream.stop`; null for other ends. */
  readonly stopReason: StopReason | null;
  /**
   * With `error`, why the request failed; with `abort`, the reason that its client gave; otherwise
   * undefined.
   */
  readonly error: unknown;
}

/** A request, as outputs name it. All rows of a request have the same object. */
export type OutputRequest = Pick<ExecutorRequest, 'id' | 'handle'>;

/**
 * Outputs of all requests of an engine, as flat arrays. Row i belongs to `requests[i]`, for i <
 * `length`, and has the tokens from
 * `tokenOffsets[i]` to before `tokenOffsets[i + 1]`. A row without tokens says only that its
 * request ended. Rows of one request are in order. There is no order among requests.
 *
 * The object and its arrays are reused. They are valid until `next` is called again, which
 * `for await` does after each iteration. Copy data that is needed longer. Content after `length` is
 * left from older outputs.
 */
export interface EngineOutputs {
  /** The number of rows; at least 1. */
  readonly length: number;
  /** The request of each row. */
  readonly requests: readonly OutputRequest[];
  /** The tokens of all rows, one row after the other. */
  readonly tokens: Int32Array;
  /**
   * Index in `tokens` of the first token of each row; at index `length` the number of all tokens.
   */
  readonly tokenOffsets: Int32Array;
  /** The executor's extra value for each of `tokens`, for instance log-probabilities; null if no row has any. */
  readonly extras: readonly unknown[] | null;
  /** How the request of each row ended after its tokens; null while it continues. */
  readonly ends: readonly (OutputEnd | null)[];
}
