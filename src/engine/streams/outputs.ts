import type { Request } from '../../scheduler/request/request.js';
import type { FinishReason } from '../../scheduler/request/status.js';

/** What a reader gets with one read: all that has come since the read before. */
export interface RequestOutput {
  /** New tokens, in order; a copy that belongs to the reader. Empty only in a last output. */
  readonly tokens: Int32Array;
  /** What the executor gave with each of these tokens, for instance log-probabilities; null if it gives nothing. */
  readonly extras: readonly unknown[] | null;
  /** Number of tokens generated up to and including these. */
  readonly numOutputTokens: number;
  /** How the request ended; null in every output but the last. Of a session: null unless the output ends the answer to a chunk. */
  readonly finishReason: EndReason | null;
  /** The reason ended only the answer to one chunk of a session: the session goes on. */
  readonly continues: boolean;
  /** What ended the request with `stop`: the stop token, or the reason given to `RequestStream.stop`; null for other ends. */
  readonly stopReason: StopReason | null;
}

/** Everything about a request that has ended. */
export interface RequestResult {
  readonly id: string;
  /** All generated tokens; a copy. */
  readonly tokens: Int32Array;
  /** What the executor gave with each of them; null if it gave nothing. */
  readonly extras: readonly unknown[] | null;
  readonly finishReason: EndReason;
  /** As in `RequestOutput`. */
  readonly stopReason: StopReason | null;
  readonly numPromptTokens: number;
  /** Prompt tokens found in the prefix cache, or loaded by the connector, when it was first admitted. */
  readonly numCachedTokens: number;
  readonly numPreemptions: number;
  /**
   * What the connector gave for the client, for instance where a decode engine finds the KV: that engine is given it as
   * `transferParams` of the request. Null = nothing.
   */
  readonly transferParams: Readonly<Record<string, unknown>> | null;
  readonly timings: RequestTimings;
}

/** Milliseconds of the engine's clock since the request was submitted; null = it never came to that. */
export interface RequestTimings {
  readonly firstScheduledMs: number | null;
  readonly firstTokenMs: number | null;
  readonly endedMs: number;
}

/** A stop token, or a stop string that the client found in the text. */
export type StopReason = string | number;

/** How a request ends that did not fail: with `error` its stream rejects. */
export type EndReason = Exclude<FinishReason, 'error'>;

/**
 * The result of a request that has ended.
 * @param tokens all that were generated; the result's own from now on, like `extras`
 * @param end how it ended, and when by the engine's clock
 */
export function makeResult(
  request: Request,
  tokens: Int32Array,
  extras: readonly unknown[] | null,
  end: { readonly reason: EndReason; readonly stopReason: StopReason | null; readonly at: number },
): RequestResult {
  const { addedAt, firstScheduledAt, firstTokenAt } = request;
  return {
    id: request.id,
    tokens,
    extras,
    finishReason: end.reason,
    stopReason: end.stopReason,
    numPromptTokens: request.numPromptTokens,
    numCachedTokens: Math.max(0, request.numCachedTokens),
    numPreemptions: request.numPreemptions,
    transferParams: request.finishedParams,
    timings: {
      firstScheduledMs: firstScheduledAt < 0 ? null : firstScheduledAt - addedAt,
      firstTokenMs: firstTokenAt < 0 ? null : firstTokenAt - addedAt,
      endedMs: end.at - addedAt,
    },
  };
}
