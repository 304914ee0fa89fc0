import { checkInteger } from '../../base/errors.js';
import { firstOf, INSPECT, showFacts } from '../../base/inspect.js';
import type { Request } from '../request/request.js';
import { type FinishCode, type FinishReason, finishReasonOf } from '../request/status.js';

/**
 * The results of one update for the clients (vLLM's EngineCoreOutputs), as flat arrays in batch
 * order. Row i belongs to
 * `requests[i]`, for i < `length`. A request that finished has one row with its finish reason. An
 * aborted request has no row, because its caller already knows. The object is reused by the next
 * update.
 *
 * A session has one row with a finish reason for each chunk that was answered. If `continues` is 1
 * the session continues. The row of the session's end has a finish reason and `continues` 0.
 */
export class StepOutputs {
  /** Rows of the last update. */
  length = 0;
  /** The request of each row. Content after `length` is left from older updates. */
  readonly requests: Request[] = [];
  /** The executor's tokens. Row i has `tokenCounts[i]` of them, from index `tokenOffsets[i]` on. */
  tokens: Int32Array = new Int32Array(0);
  /** Index in `tokens` of the first token of each row. */
  tokenOffsets: Int32Array;
  /** Number of tokens of each row; 0 for a row that says only that its request ended. */
  tokenCounts: Int32Array;
  /** `FinishCode` of each row; 0 while the request continues. `finishReason(row)` names it. */
  finishReasons: Uint8Array;
  /** 1: the finish reason ended only the answer to a chunk. The session waits for the next chunk, or begins it. */
  continues: Uint8Array;
  #anyContinues = false;

  /** @internal */
  constructor(capacity: number) {
    this.tokenOffsets = new Int32Array(capacity);
    this.tokenCounts = new Int32Array(capacity);
    this.finishReasons = new Uint8Array(capacity);
    this.continues = new Uint8Array(capacity);
  }

  /** @internal Makes room for `rows` rows and drops those of the last update. */
  begin(tokens: Int32Array, rows: number): void {
    this.tokens = tokens;
    this.length = 0;
    if (this.#anyContinues) this.continues.fill(0);
    this.#anyContinues = false;
    if (rows <= this.tokenOffsets.length) return;
    this.tokenOffsets = new Int32Array(rows);
    this.tokenCounts = new Int32Array(rows);
    this.finishReasons = new Uint8Array(rows);
    this.continues = new Uint8Array(rows);
  }

  /**
   * Why the request of a row ended, or, with `continues`, its answer; null while it goes on. @throws
   * ERR_BLOCKSTEP_BAD_ARG
   */
  finishReason(row: number): FinishReason | null {
    return finishReasonOf(this.finishReasons[checkInteger('row', row, 0, this.length - 1)]);
  }

  /** For `util.inspect` and `console.log`: the first rows, each with its id, tokens and finish reason. */
  [INSPECT](depth: number, options: object): string {
    const { length, requests, tokenCounts } = this;
    const rows = firstOf(length, (row) => {
      const reason = this.finishReason(row);
      return `${requests[row].id}: ${tokenCounts[row]} tokens${reason === null ? '' : `, ${reason}`}`;
    });
    return showFacts('StepOutputs', depth, options, { length, rows });
  }

  /** @internal */
  markContinued(row: number): void {
    this.continues[row] = 1;
    this.#anyContinues = true;
  }

  /** @internal */
  push(request: Request, offset: number, count: number, reason: FinishCode): void {
    const i = this.length++;
    if (this.requests[i] !== request) this.requests[i] = request;
    this.tokenOffsets[i] = offset;
    this.tokenCounts[i] = count;
    this.finishReasons[i] = reason;
  }
}
