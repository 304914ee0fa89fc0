import type { FinishReason, RequestStatus } from './status.js';

/**
 * A request as a connector reads it (`R` in the contract). The object is the scheduler's own, so its fields follow the
 * request from call to call. Counts are in tokens. Times are in milliseconds of the scheduler's clock.
 */
export interface ConnectorRequest {
  /** External id. A later request may have the same id; `handle` tells them apart. */
  readonly id: string;
  /** Names this incarnation alone, a safe integer. */
  readonly handle: number;
  /** A small index, for arrays of the connector's own. A later request may get it once this one gave its blocks back. */
  readonly slot: number;
  /** The condition that the request waits for, or whether it runs or has finished. */
  readonly status: RequestStatus;
  /** Why the request ended; null while it goes on. */
  readonly finishReason: FinishReason | null;
  /**
   * The reason why the request failed, as text for people; null: it did not, or only its step
   * failed.
   */
  readonly failure: string | null;
  /** Known tokens: the prompt, and the generated tokens. */
  readonly numTokens: number;
  /** Prompt tokens; of a session every token up to the end of the present chunk, earlier answers included. */
  readonly numPromptTokens: number;
  /** Known generated tokens; of a session those that answer the present chunk. */
  readonly numOutputTokens: number;
  /** Tokens whose KV exists, or will exist once steps and loads under way have ended. `KvView.extent` tells them apart. */
  readonly numComputedTokens: number;
  /** Tokens found in the prefix cache, or brought by a connector, at the first admission; -1 = not admitted yet. */
  readonly numCachedTokens: number;
  /** Tokens that the connector was to bring at the last admission. */
  readonly numExternalTokens: number;
  /** Loads of this request that failed, wholly or in part. */
  readonly numFailedLoads: number;
  /** Times that the request lost its blocks while it ran, and had to be computed again. */
  readonly numPreemptions: number;
  /** Most tokens to generate; of a session for the present answer. */
  readonly maxTokens: number;
  /** With policy `priority`: a lower value is more important. */
  readonly priority: number;
  /** When the request arrived; of a session, when the present chunk did. Any unit. */
  readonly arrivalTime: number;
  /** When the scheduler added the request. */
  readonly addedAt: number;
  /** Salt of the block hashes; empty = none. */
  readonly cacheSalt: string;
  /** Name of the LoRA adapter; empty = none. */
  readonly adapter: string;
  /** The client's parameters for the connector; null = none. */
  readonly transferParams: Readonly<Record<string, unknown>> | null;
}
