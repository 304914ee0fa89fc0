import type { Request } from './request.js';
import type { FinishReason } from './status.js';

/**
 * What one update says to the clients (vLLM's EngineCoreOutputs), as flat arrays in batch order; row i belongs to
 * `requests[i]`, for i < `length`. A request that finished stands here once with its reason; an aborted one does not
 * stand here, its canceller knows. The object is reused by the next update.
 */
export class StepOutputs {
  length = 0;
  readonly requests: Request[] = [];
  /** The executor's tokens; row i has `tokenCounts[i]` of them from `tokenOffsets[i]` on. */
  tokens: Int32Array = new Int32Array(0);
  tokenOffsets: Int32Array;
  tokenCounts: Int32Array;
  /** `FinishReason` of each row, 0 while the request goes on. */
  finishReasons: Uint8Array;

  /** @internal */
  constructor(capacity: number) {
    this.tokenOffsets = new Int32Array(capacity);
    this.tokenCounts = new Int32Array(capacity);
    this.finishReasons = new Uint8Array(capacity);
  }

  /** @internal Makes room for `rows` rows and forgets the last update's. */
  begin(tokens: Int32Array, rows: number): void {
    this.tokens = tokens;
    this.length = 0;
    if (rows <= this.tokenOffsets.length) return;
    this.tokenOffsets = new Int32Array(rows);
    this.tokenCounts = new Int32Array(rows);
    this.finishReasons = new Uint8Array(rows);
  }

  /** @internal */
  push(request: Request, offset: number, count: number, reason: FinishReason): void {
    const i = this.length++;
    if (this.requests[i] !== request) this.requests[i] = request;
    this.tokenOffsets[i] = offset;
    this.tokenCounts[i] = count;
    this.finishReasons[i] = reason;
  }
}
