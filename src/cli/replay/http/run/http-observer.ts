/** Observes a replay over HTTP. Times are real milliseconds since the first arrival. */
export interface HttpObserver {
  /** A request was sent. `queuedOutside` have arrived and were not sent yet. */
  sent(nowMs: number, lateMs: number, queuedOutside: number): void;
  /** A chunk has come; `gapMs` since the one before, null if it is the first one of its request. */
  chunk(nowMs: number, gapMs: number | null, ttftMs: number | null): void;
  /** A request that was sent is under way no more. */
  ended(nowMs: number, request: EndedRequest): void;
}

/** What becomes of a request that was sent. */
export interface EndedRequest {
  /** Whether a chunk of it had come. */
  readonly hadChunk: boolean;
  /** From sending to the last chunk; null: it did not finish. */
  readonly e2eMs: number | null;
  /** Generated tokens that were not seen as chunks; below 0 if there were more chunks than tokens. */
  readonly unseenTokens: number;
  /** What the server says of its prompt; null: nothing. */
  readonly cache: { readonly queries: number; readonly hits: number } | null;
}
