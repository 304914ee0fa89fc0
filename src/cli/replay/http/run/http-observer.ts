/** Observes a replay over HTTP. Times are real milliseconds since the first arrival. */
export interface HttpObserver {
  /** A request was sent. `queuedOutside` requests have arrived and were not sent yet. */
  sent(nowMs: number, lateMs: number, queuedOutside: number): void;
  /**
   * A chunk has arrived, `gapMs` after the previous chunk; null for the first chunk of its request.
   */
  chunk(nowMs: number, gapMs: number | null, ttftMs: number | null): void;
  /** A sent request has ended. */
  ended(nowMs: number, request: EndedRequest): void;
}

/** The end of a request that was sent. */
export interface EndedRequest {
  /** Whether a chunk of it had arrived. */
  readonly hadChunk: boolean;
  /** From sending to the last chunk; null: the request did not finish. */
  readonly e2eMs: number | null;
  /**
   * Generated tokens that were not seen as chunks; below 0 if there were more chunks than tokens.
   */
  readonly unseenTokens: number;
  /** The server's figures for its prompt; null: none. */
  readonly cache: { readonly queries: number; readonly hits: number } | null;
}
