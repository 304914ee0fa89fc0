import type { Request } from '../../scheduler/request/request.js';
import type { FinishReason } from '../../scheduler/request/status.js';

/** The content of an output, as plain data. */
export interface OutputData {
  /**
   * New token ids, in order; a copy that belongs to the reader. Can be empty in an output that has
   * a `finishReason`.
   */
  readonly tokens: Int32Array;
  /** The executor's extra value for each of `tokens`, for instance log-probabilities; null if there are none. */
  readonly extras: readonly unknown[] | null;
  /** Number of tokens generated so far, those of this output included. */
  readonly numOutputTokens: number;
  /** How the request ended; null in every output but the last. In a session also set in the last output of each chunk's answer. */
  readonly finishReason: EndReason | null;
  /** true: `finishReason` ends only the answer to one chunk of a session, and the session goes on. */
  readonly continues: boolean;
  /** The cause of the end `stop`: the stop token, or the reason given to `RequestStream.stop`; null for other ends. */
  readonly stopReason: StopReason | null;
}

/**
 * One output for a reader: all tokens since its previous output. `tokens` and `extras` are made on
 * access, so they are getters, which a spread and a clone leave out. `toJSON()` includes them.
 */
export interface RequestOutput extends OutputData {
  /** Number of `tokens`. */
  readonly numTokens: number;
  /** The token at an index of `tokens`, without making the array. @throws ERR_BLOCKSTEP_BAD_ARG */
  tokenAt(index: number): number;
  /** The output as plain data. */
  toJSON(): OutputData;
}

/** The result of a request that has ended without failing. */
export interface RequestResult {
  /** External id of the request. */
  readonly id: string;
  /** All generated token ids; a copy. */
  readonly tokens: Int32Array;
  /** The executor's extra value for each of `tokens`; null if there are none. */
  readonly extras: readonly unknown[] | null;
  /** How the request ended. */
  readonly finishReason: EndReason;
  /** As in `RequestOutput`. */
  readonly stopReason: StopReason | null;
  /** Length of the prompt in tokens; for a session, of the last prompt. */
  readonly numPromptTokens: number;
  /** Prompt tokens found in the prefix cache, or loaded by the connector, when it was first admitted. */
  readonly numCachedTokens: number;
  /** How often the request was preempted. */
  readonly numPreemptions: number;
  /**
   * The connector's parameters for the client, for instance the place where a decode engine finds
   * the KV. The client submits them to that engine as `transferParams`. Null = none.
   */
  readonly transferParams: Readonly<Record<string, unknown>> | null;
  /** When the request was scheduled, produced its first token and ended. */
  readonly timings: RequestTimings;
}

/** Times in milliseconds of the engine's clock since the request was submitted; null = the event never happened. */
export interface RequestTimings {
  /** To the first plan with the request. */
  readonly firstScheduledMs: number | null;
  /** To the first generated token (TTFT). */
  readonly firstTokenMs: number | null;
  /** To the end of the request. */
  readonly endedMs: number;
}

/** A stop token, or a stop string that the client found in the text. */
export type StopReason = string | number;

/** How a request ends without failing. A failed request (`error`) rejects its stream instead. */
export type EndReason = Exclude<FinishReason, 'error'>;

/**
 * Makes the result of a request that has ended.
 * @param tokens all generated tokens; they belong to the result from now on, as do `extras`
 * @param end how the request ended, and when in milliseconds of the engine's clock
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
