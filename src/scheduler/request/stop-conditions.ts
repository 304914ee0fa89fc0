import { FinishCode } from './status.js';

/** When a request ends; in a session, when the answer to one chunk ends. */
export interface StopConditions {
  /** The maximum number of tokens to generate, at least 1. */
  maxTokens: number;
  /**
   * Tokens that must be generated before anything stops the request. The model's length still stops
   * it, with
   * `length`. Default 0.
   */
  minTokens?: number;
  /** The token that ends the text. Default: none. */
  eosTokenId?: number;
  /** True: `eosTokenId` does not stop the request. Default false. */
  ignoreEos?: boolean;
  /** Further tokens that end the request. The token that ended it becomes `stopReason`. Any array-like; copied. */
  stopTokenIds?: ArrayLike<number>;
}

/** Checked `StopConditions`. */
export interface ParsedStops extends StopConditions {
  stopTokenIds?: readonly number[];
}

/** The limits that the configuration and the clock of the scheduler add to a request. */
export interface RequestLimits {
  maxModelLen: number;
  /** Known tokens at which a request ends with `length` although it has not generated `minTokens`. */
  fullAt: number;
  now: number;
}

/** The fields of a `Request` that decide when it ends. */
export interface StopFields {
  readonly numPromptTokens: number;
  readonly numTokens: number;
  eosTokenId: number;
  checkFrom: number;
  promptPlusMaxTokens: number;
  lengthLimit: number;
  minStopTokens: number;
  fullAt: number;
  stopTokenIds: readonly number[] | null;
  maxTokens: number;
  stopReason: number | null;
  forgetStopReason: boolean;
  firstTokenAt: number;
}

/** Sets the stop conditions of a request. Their counts start after its present prompt tokens. */
export function setStops(request: StopFields, stops: ParsedStops, limits: RequestLimits): void {
  const numPrompt = request.numPromptTokens;
  request.eosTokenId = stops.ignoreEos === true || stops.eosTokenId === undefined ? -1 : stops.eosTokenId;
  request.checkFrom = 0;
  request.promptPlusMaxTokens = Math.min(numPrompt + stops.maxTokens, 2 ** 30);
  request.lengthLimit = Math.min(limits.maxModelLen, request.promptPlusMaxTokens);
  request.minStopTokens = numPrompt + (stops.minTokens ?? 0);
  request.fullAt = limits.fullAt;
  const ids = stops.stopTokenIds;
  request.stopTokenIds = ids === undefined || ids.length === 0 ? null : ids;
  request.maxTokens = stops.maxTokens;
}

/**
 * Whether the token that was just appended ends the request. The order is vLLM's
 * (`vllm.v1.core.sched.utils.check_stop`): nothing before `minTokens`, then end of text, then stop
 * tokens, then length. A request that fills the model before `minTokens` ends with `length`, never
 * with `stop`; vLLM lets it run on with nothing left to compute. Sets `stopReason`, and the time of
 * the first token.
 * @param now the time, in milliseconds of the scheduler's clock
 * @returns the finish code; 0 while the request goes on
 */
export function checkStop(request: StopFields, token: number, now: number): FinishCode {
  if (request.checkFrom === 0) {
    if (request.firstTokenAt < 0) request.firstTokenAt = now;
    if (request.forgetStopReason) {
      request.forgetStopReason = false;
      request.stopReason = null;
    }
    request.checkFrom = request.stopTokenIds === null ? request.lengthLimit : 0;
  }
  if (request.numTokens < request.minStopTokens) {
    return request.numTokens >= request.fullAt ? FinishCode.length : FinishCode.none;
  }
  if (token === request.eosTokenId) return FinishCode.stop;
  if (request.stopTokenIds?.includes(token)) {
    request.stopReason = token;
    return FinishCode.stop;
  }
  return request.numTokens >= request.lengthLimit ? FinishCode.length : FinishCode.none;
}
