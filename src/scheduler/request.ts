import type { Outstanding } from './outstanding.js';
import { FinishReason, type RequestStatus } from './status.js';

/** What a caller gives to `Scheduler.add`. */
export interface RequestInput {
  /** External id. Refused while an unfinished request has it. */
  id: string;
  /** Prompt token ids, at least one; copied. Each must be an integer in [0, 2^31 - 2]. */
  prompt: Int32Array;
  /** Most tokens to generate, >= 1. */
  maxTokens: number;
  /** No stop of any kind before this many tokens were generated. Default 0. */
  minTokens?: number;
  /** The token that ends the text; default: none. */
  eosTokenId?: number;
  /** `eosTokenId` does not stop the request. Default false. */
  ignoreEos?: boolean;
  /** Further tokens that end the request; the one that did becomes `stopReason`. */
  stopTokenIds?: readonly number[];
  /** With policy `priority`: lower is more important. Default 0. */
  priority?: number;
  /** With policy `priority`: breaks ties, lower first. Any unit; default: the scheduler's clock. */
  arrivalTime?: number;
  /** Requests share cached prefixes only under an equal salt. */
  cacheSalt?: string;
  /** Name of the LoRA adapter; requests share cached prefixes only under an equal adapter. */
  adapter?: string;
}

/** The container that holds an unfinished request; `null` once it finished. */
export type Container = 'waiting' | 'skipped' | 'running' | null;

/**
 * One incarnation of a request: from `add` to its terminal event. Counts are in tokens, times in milliseconds of the
 * scheduler's clock (-1 = not yet). To everyone but the scheduler its fields are read-only.
 *
 * Invariants: `container` is null exactly when `finishReason` is not `none`;
 * `numComputedTokens <= numTokens + numOutputPlaceholders + scheduled drafts`;
 * `numOutputPlaceholders` is 0 unless steps are pipelined.
 */
export class Request {
  // The fields that a decode step touches stand first and share two cache lines. Each begins as a number, so that the
  // engine never has to ask what it holds.
  /** Prompt and generated tokens that are known. */
  numTokens = 0;
  /** Tokens whose KV exists, or will once the steps in flight ran (optimistic, as in vLLM). */
  numComputedTokens = 0;
  /** Index of this incarnation in the native request table. */
  readonly slot: number = 0;
  finishReason: FinishReason = FinishReason.none;
  /** The stop token, or -1. */
  readonly eosTokenId: number = -1;
  /** Token count from which on `checkStop` has to look; below it only `eosTokenId` matters. 0 until the first token. */
  checkFrom = 0;
  /** Tokens that steps in flight will bring. */
  numOutputPlaceholders = 0;
  /** Draft tokens to be verified by the next step. */
  numDraftTokens = 0;
  /** prompt + maxTokens, which may lie beyond the model's length. */
  readonly promptPlusMaxTokens: number = 0;
  /** Token count from which the next full block can be published by an update (pipelined steps only; a lower bound). */
  nextPublish = 0;

  status: RequestStatus = 'WAITING';
  /** Token count at which the request ends with `length`: prompt + maxTokens, or the model's length. */
  readonly lengthLimit: number;
  /** Below this token count nothing stops the request (prompt + minTokens). */
  readonly minStopTokens: number;
  readonly stopTokenIds: readonly number[] | null;
  /** Step that admitted it last, -1 = never. */
  admittedStep = -1;
  readonly id: string;
  readonly handle: number;
  container: Container = null;
  numPromptTokens: number;
  /** Prompt tokens found in the prefix cache at first admission, -1 = not admitted yet. */
  numCachedTokens = -1;
  numPreemptions = 0;
  readonly maxTokens: number;
  readonly priority: number;
  readonly arrivalTime: number;
  readonly cacheSalt: string;
  readonly adapter: string;
  /** The stop token that ended it; null when something else did. */
  stopReason: number | null = null;
  /** Transfers that still use its blocks; null = none was ever registered. */
  outstanding: Outstanding | null = null;

  readonly addedAt: number;
  firstScheduledAt = -1;
  firstTokenAt = -1;
  finishedAt = -1;

  // Links of the one waiting container that may hold it.
  /** @internal */ prev: Request | null = null;
  /** @internal */ next: Request | null = null;
  /** @internal */ heapIndex = -1;

  /** @internal */
  constructor(input: RequestInput, handle: number, slot: number, limits: RequestLimits) {
    const numPrompt = input.prompt.length;
    this.numTokens = numPrompt;
    this.slot = slot;
    this.eosTokenId = input.ignoreEos === true || input.eosTokenId === undefined ? -1 : input.eosTokenId;
    this.promptPlusMaxTokens = Math.min(numPrompt + input.maxTokens, 2 ** 30);
    this.lengthLimit = Math.min(limits.maxModelLen, this.promptPlusMaxTokens);
    this.minStopTokens = Math.min(numPrompt + (input.minTokens ?? 0), limits.minStopCap);
    const stops = input.stopTokenIds;
    this.stopTokenIds = stops === undefined || stops.length === 0 ? null : [...stops];
    this.id = input.id;
    this.handle = handle;
    this.numPromptTokens = numPrompt;
    this.maxTokens = input.maxTokens;
    this.priority = input.priority ?? 0;
    this.arrivalTime = input.arrivalTime ?? limits.now;
    this.cacheSalt = input.cacheSalt ?? '';
    this.adapter = input.adapter ?? '';
    this.addedAt = limits.now;
  }

  /** Generated tokens that are known. */
  get numOutputTokens(): number {
    return this.numTokens - this.numPromptTokens;
  }

  get isFinished(): boolean {
    return this.finishReason !== FinishReason.none;
  }
}

/** What the scheduler's configuration and clock add to a request. */
export interface RequestLimits {
  maxModelLen: number;
  /** Upper bound of `minStopTokens`. */
  minStopCap: number;
  now: number;
}

/**
 * Whether the token just appended ends the request, in vLLM's order: nothing before `minTokens`, then end of text,
 * then stop tokens, then length (`vllm.v1.core.sched.utils.check_stop`). Sets `stopReason`, and the time of the first
 * token.
 */
export function checkStop(request: Request, token: number, now: number): FinishReason {
  if (request.firstTokenAt < 0) {
    request.firstTokenAt = now;
    request.checkFrom = request.stopTokenIds === null ? request.lengthLimit : 0;
  }
  if (request.numTokens < request.minStopTokens) return FinishReason.none;
  if (token === request.eosTokenId) return FinishReason.stop;
  if (request.stopTokenIds?.includes(token)) {
    request.stopReason = token;
    return FinishReason.stop;
  }
  return request.numTokens >= request.lengthLimit ? FinishReason.length : FinishReason.none;
}
