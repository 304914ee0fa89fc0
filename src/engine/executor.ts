/** What an executor reads of a request. `Request` of the scheduler has all of it. */
export interface ExecutorRequest {
  readonly id: string;
  /** Names one incarnation of a request; another request in the same slot has another handle. */
  readonly handle: number;
  readonly numPromptTokens: number;
}

/** What an executor reads of a plan: parallel arrays, valid up to `numRequests`. The scheduler's `Plan` has it all. */
export interface ExecutorPlan {
  readonly numRequests: number;
  /** Tokens of all entries; 0 = nothing to compute. */
  readonly totalTokens: number;
  readonly requests: readonly ExecutorRequest[];
  readonly slots: Int32Array;
  /** Tokens to compute, drafts included. */
  readonly numScheduledTokens: Int32Array;
  /** Tokens whose KV exists before this step. */
  readonly numComputedTokens: Int32Array;
  /** Draft tokens among the scheduled ones. */
  readonly numDraftTokens: Int32Array;
  /** Draft tokens of entry i from i * maxDrafts on; -1 where a step in flight makes them. */
  readonly draftTokens: Int32Array;
  readonly maxDrafts: number;
}

/**
 * Tokens of several plan entries: entry i has `counts[i]` of them, and they lie one entry after the other in `tokens`.
 * Both arrays may be longer than what they hold.
 */
export interface FlatTokens {
  readonly tokens: Int32Array;
  readonly counts: Int32Array;
}

/**
 * Computes steps, strictly in the order in which they are submitted. An entry whose known tokens are all computed by
 * the step gets one token, and one more for every draft token that the model agrees with; any other entry gets none.
 */
export interface Executor {
  execute(plan: ExecutorPlan): FlatTokens | Promise<FlatTokens>;
}
