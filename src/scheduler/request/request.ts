import type { AnomalyReason } from '../../base/anomaly-reason.js';
import { INSPECT, showFacts } from '../../base/inspect.js';
import type { Grammar, GrammarCalls } from './grammar.js';
import type { Load } from './load.js';
import type { Outstanding } from './outstanding.js';
import type { Session } from './session.js';
import { FinishCode, type FinishReason, finishReasonOf, type RequestStatus } from './status.js';
import { type RequestLimits, type StopConditions, setStops } from './stop-conditions.js';
import { NO_DEADLINE, type WaitReason, waitReason } from './wait.js';

/** What a caller gives to `Scheduler.add`. */
export interface RequestInput extends StopConditions {
  /** External id. Refused while an unfinished request has it. */
  id: string;
  /**
   * Prompt token ids, at least one; copied. Each must be an integer in [0, 2^31 - 2]. Any array-like: number[], any typed array
   * of numbers. An Int32Array costs least, since it is copied once.
   */
  prompt: ArrayLike<number>;
  /** With policy `priority`: lower is more important. Default 0. */
  priority?: number;
  /** With policy `priority`: breaks ties, lower first. Any unit; default: the scheduler's clock. */
  arrivalTime?: number;
  /** Requests share cached prefixes only under an equal salt. */
  cacheSalt?: string;
  /** Name of the LoRA adapter; requests share cached prefixes only under an equal adapter. */
  adapter?: string;
  /** Opens a session: when its answer ends, the request waits for the next chunk (`addChunk`, `endSession`). */
  resumable?: boolean;
  /** Constrains what is generated; the request waits until it is ready. */
  grammar?: Grammar;
  /**
   * Milliseconds of the scheduler's clock that the request may take from `add` to its end, more than 0 and at most ten years; of a
   * session from each chunk to the end of its answer. Then it ends with `error`, when the next step is scheduled. Default
   * Infinity: as long as it takes.
   */
  timeoutMs?: number;
  /** For the connector, for instance where it finds the KV of the prompt (vLLM kv_transfer_params); nobody else reads it. */
  transferParams?: Readonly<Record<string, unknown>>;
  /** For the executor, for instance how to sample, or images; handed on as it is, and nobody else reads it. */
  params?: unknown;
}

/** The container that holds an unfinished request; `null` once it finished. */
export type Container = 'waiting' | 'skipped' | 'running' | null;

/** A checked `RequestInput`: the grammar's methods were looked up once. */
export interface TakenRequest extends RequestInput {
  prompt: Int32Array;
  stopTokenIds?: readonly number[];
  grammarCalls?: GrammarCalls;
}

/**
 * One incarnation of a request: from `add` to its terminal event. Counts are in tokens, times in milliseconds of the
 * scheduler's clock (-1 = not yet). To everyone but the scheduler its fields are read-only.
 *
 * Invariants: `container` is null exactly when `finishReason` is not null;
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
  /** @internal Why it ended; see `finishReason`. */
  finishCode: FinishCode = FinishCode.none;
  /** The stop token, or -1. */
  eosTokenId = -1;
  /** Token count from which on `checkStop` has to look; below it only `eosTokenId` matters. 0 until the first token. */
  checkFrom = 0;
  /** Tokens that steps in flight will bring. */
  numOutputPlaceholders = 0;
  /** Draft tokens to be verified by the next step. */
  numDraftTokens = 0;
  /** prompt + maxTokens, which may lie beyond the model's length. */
  promptPlusMaxTokens = 0;
  /** Token count from which the next full block can be published by an update (pipelined steps only; a lower bound). */
  nextPublish = 0;

  status: RequestStatus = 'WAITING';
  /** Token count at which the request ends with `length`: prompt + maxTokens, or the model's length. */
  lengthLimit = 0;
  /** Below this token count nothing stops the request (prompt + minTokens), but that it fills the model (`fullAt`). */
  minStopTokens = 0;
  /** Token count at which it ends with `length` even below `minStopTokens`. */
  fullAt = 0;
  stopTokenIds: readonly number[] | null = null;
  /** Step that admitted it last, -1 = never. */
  admittedStep = -1;
  readonly id: string;
  readonly handle: number;
  container: Container = null;
  /** Of a session: everything up to the end of the present chunk, the answers before it included. */
  numPromptTokens: number;
  /** Prompt tokens found in the prefix cache, or brought by a connector, at first admission; -1 = not admitted yet. */
  numCachedTokens = -1;
  numPreemptions = 0;
  maxTokens = 0;
  readonly priority: number;
  /** Of a session: that of the present chunk. */
  arrivalTime: number;
  readonly cacheSalt: string;
  readonly adapter: string;
  /** The stop token that ended it, or ended the last answer of a session; null when something else did. */
  stopReason: number | null = null;
  /** Why it ended with `error`, for people; null when it did not. */
  failure: string | null = null;
  /** Transfers that still use its blocks; null = none was ever registered. */
  outstanding: Outstanding | null = null;
  /** Anomalies that were about it, and the reason of the last one. */
  numAnomalies = 0;
  lastAnomaly: AnomalyReason | null = null;
  /** Tokens that a connector was to bring at the last admission. */
  numExternalTokens = 0;
  /** The load that it waits for, or that is done and not promoted yet. */
  load: Load | null = null;
  /** Loads of which something did not come. */
  numFailedLoads = 0;
  /** The step that began its last asynchronous load, -1 = it had none. */
  loadStep = -1;
  /** The step that was made last when it ended; -1 = it has not ended. */
  endedStep = -1;
  /** Blocks of an earlier residency that a transfer still used when it was preempted; pinned until that ends. */
  keptBlocks: Int32Array | null = null;
  /** What its client gave for the connector; null = nothing. */
  readonly transferParams: Readonly<Record<string, unknown>> | null;
  /** What its client gave for the executor; of a session what the present chunk gave, or else `add`. */
  params: unknown = undefined;
  /** What the connector gave for the client when it ended. */
  finishedParams: Readonly<Record<string, unknown>> | null = null;
  /** What is known of its session; null if it was not added as resumable. */
  readonly session: Session | null;
  /** What constrains its tokens, as it was given to `add`. */
  readonly grammar: Grammar | null;

  /** What its client gave as `timeoutMs`; Infinity = nothing. */
  readonly timeoutMs: number;
  readonly addedAt: number;
  firstScheduledAt = -1;
  firstTokenAt = -1;
  finishedAt = -1;
  /** Since when it waits for what `waitReason` says, or runs. */
  waitingSince: number;
  /** It stood at the head of the queue and was passed over, because `maxLoras` other adapters ran. */
  waitsForAdapter = false;

  /** @internal Prompt tokens that it counts for in the backlog; 0 = it was admitted, or has ended. */ backlogTokens = 0;
  // Links of the one waiting container that may hold it, its place among the skipped ones, and its deadline.
  /** @internal */ prev: Request | null = null;
  /** @internal */ next: Request | null = null;
  /** @internal */ heapIndex = -1;
  /** @internal */ order = 0;
  /** @internal The earliest of the three below, or `NO_DEADLINE`. */ deadline = NO_DEADLINE;
  /** @internal When its present wait ends it. */ waitDeadline = NO_DEADLINE;
  /** @internal When it must have been scheduled. */ queueDeadline = NO_DEADLINE;
  /** @internal When it must have ended, or its session answered the present chunk. */ wholeDeadline =
    NO_DEADLINE;
  /** @internal */ deadlineIndex = -1;
  /** @internal */ forgetStopReason = false;
  /** @internal The connector could not say yet what it can bring; it is asked again. */ asksLater = false;
  /** @internal The connector was asked to stop sending it. */ cancelled = false;
  /** @internal */ readonly grammarCalls: GrammarCalls | null;

  /** @internal */
  constructor(
    input: TakenRequest,
    handle: number,
    slot: number,
    limits: RequestLimits,
    session: Session | null,
  ) {
    this.numTokens = input.prompt.length;
    this.slot = slot;
    this.id = input.id;
    this.handle = handle;
    this.numPromptTokens = input.prompt.length;
    this.priority = input.priority ?? 0;
    this.arrivalTime = input.arrivalTime ?? limits.now;
    this.cacheSalt = input.cacheSalt ?? '';
    this.adapter = input.adapter ?? '';
    this.session = session;
    this.grammar = input.grammar ?? null;
    this.transferParams = input.transferParams ?? null;
    this.params = input.params;
    this.grammarCalls = input.grammarCalls ?? null;
    this.timeoutMs = input.timeoutMs ?? Number.POSITIVE_INFINITY;
    this.addedAt = limits.now;
    this.waitingSince = limits.now;
    setStops(this, input, limits);
  }

  /** Generated tokens that are known; of a session those that answer the present chunk. */
  get numOutputTokens(): number {
    return this.numTokens - this.numPromptTokens;
  }

  get isFinished(): boolean {
    return this.finishCode !== FinishCode.none;
  }

  /** Why it ended; null while it goes on. Of a session its last answer does not count: see `StepOutputs`. */
  get finishReason(): FinishReason | null {
    return finishReasonOf(this.finishCode);
  }

  [INSPECT](depth: number, options: object): string {
    return showFacts('Request', depth, options, requestFacts(this));
  }

  /** What it waits for since `waitingSince`; null while it runs and when it has finished. */
  get waitReason(): WaitReason | null {
    return waitReason(this);
  }
}

/** What became of a request so far. */
export function requestFacts(request: Request): object {
  const { id, handle, status, numPromptTokens, numComputedTokens, numCachedTokens, maxTokens } = request;
  return {
    id,
    handle,
    status,
    promptTokens: numPromptTokens,
    outputTokens: `${request.numOutputTokens} of ${maxTokens}`,
    computed: numComputedTokens,
    cached: numCachedTokens < 0 ? undefined : numCachedTokens,
    preemptions: request.numPreemptions === 0 ? undefined : request.numPreemptions,
    finishReason: request.finishReason ?? undefined,
    failure: request.failure ?? undefined,
  };
}
