import type { AnomalyReason } from '../../base/anomaly-reason.js';
import { INSPECT, showFacts } from '../../base/inspect.js';
import type { ConnectorRequest } from './connector-request.js';
import type { Grammar, GrammarCalls } from './grammar.js';
import type { Load } from './load.js';
import type { Outstanding } from './outstanding.js';
import { type RequestClock, STILL } from './request-clock.js';
import { requestFacts } from './request-facts.js';
import type { Session } from './session.js';
import {
  type Container,
  FinishCode,
  type FinishReason,
  finishReasonOf,
  type RequestStatus,
} from './status.js';
import { type RequestLimits, type StopConditions, setStops } from './stop-conditions.js';
import { NO_DEADLINE, type WaitReason, waitReason } from './wait.js';

/** The input of `Scheduler.add`. */
export interface RequestInput extends StopConditions {
  /** External id. It is refused while an unfinished request has the same id. */
  id: string;
  /**
   * Prompt token ids, at least one; copied. Each must be an integer in [0, 2^31 - 2]. Any
   * array-like is accepted: number[], any typed array of numbers. An Int32Array costs least. A
   * session without a grammar may begin with an empty prompt: it waits for its first chunk.
   */
  prompt: ArrayLike<number>;
  /** With policy `priority`: a lower value is more important. Default 0. */
  priority?: number;
  /**
   * With policy `priority`: breaks ties of priority, the lower value first. Any unit. Default: the scheduler's clock.
   */
  arrivalTime?: number;
  /** Salt of the block hashes: requests share cached prefixes only if their salts are equal. */
  cacheSalt?: string;
  /** Name of the LoRA adapter. Requests share cached prefixes only if their adapters are equal. */
  adapter?: string;
  /** True opens a session: when its answer ends, the request waits for the next chunk (`addChunk`, `endSession`). */
  resumable?: boolean;
  /** Constrains the generated tokens. The request waits until the grammar is ready. */
  grammar?: Grammar;
  /**
   * Milliseconds of the scheduler's clock that the request may take from `add` to its end. For a
   * session, they run from each chunk to the end of its answer. More than 0 and at most ten years.
   * A request that takes longer ends with `error`, when the next step is scheduled. Default
   * Infinity: no limit.
   */
  timeoutMs?: number;
  /**
   * Only for the connector, for instance where it finds the KV of the prompt (vLLM
   * kv_transfer_params).
   */
  transferParams?: Readonly<Record<string, unknown>>;
  /** Only for the executor, for instance how to sample, or images. Passed on unchanged. */
  params?: unknown;
}

/** A checked `RequestInput`. The methods of its grammar were looked up once. */
export interface ParsedRequest extends RequestInput {
  prompt: Int32Array;
  stopTokenIds?: readonly number[];
  grammarCalls?: GrammarCalls;
}

/**
 * One incarnation of a request, from `add` to its terminal event. Counts are in tokens. Times are
 * in milliseconds of the scheduler's clock, -1 = not yet. Only the scheduler writes the fields,
 * except for the status, which a borrowing adapter writes too.
 *
 * Invariants: `container` is null exactly when `finishReason` is not null;
 * `numComputedTokens <= numTokens + numOutputPlaceholders + scheduled drafts`;
 * `numOutputPlaceholders` is 0 unless steps are pipelined.
 */
export class Request implements ConnectorRequest {
  // The fields that a decode step touches come first and share two cache lines. Each is a number
  // from the start, so that the JavaScript engine never has to check its type.
  /** @internal `numTokens`, `numComputedTokens` and `numOutputPlaceholders`, less what `clock` counts. */
  tokensBase = 0;
  /** @internal */ computedBase = 0;
  /** @internal */ placeholdersBase = 0;
  /** @internal */ clock: RequestClock = STILL;
  /** Index of the request in the native request table. */
  readonly slot: number = 0;
  /** @internal Why it ended; see `finishReason`. */
  finishCode: FinishCode = FinishCode.none;
  /** The token that ends the text; -1 = none. */
  eosTokenId = -1;
  /**
   * Known tokens from which on `checkStop` must check; below it only `eosTokenId` matters. 0 until
   * the first token.
   */
  checkFrom = 0;
  /** Draft tokens that the next step verifies. */
  numDraftTokens = 0;
  /** Prompt tokens + maxTokens, which may be more than the model's length. */
  promptPlusMaxTokens = 0;
  /** A lower bound of the known tokens from which an update can publish a block; with pipelined steps only. */
  nextPublish = 0;

  /** The event that the request waits for, or whether it runs or has finished. */
  status: RequestStatus = 'WAITING';
  /** Known tokens at which it ends with `length`: prompt + maxTokens, or the model's length if less. */
  lengthLimit = 0;
  /**
   * Known tokens (prompt + minTokens) below which the request continues, unless it fills the model
   * (`fullAt`).
   */
  minStopTokens = 0;
  /** Known tokens at which the request ends with `length` even below `minStopTokens`. */
  fullAt = 0;
  /** Token ids that end the request besides `eosTokenId`; null = none. */
  stopTokenIds: readonly number[] | null = null;
  /** Step that admitted the request last; -1 = never admitted. */
  admittedStep = -1;
  /** External id. A later request may have the same id; `handle` tells them apart. */
  readonly id: string;
  /** Slot + generation * 2^21, a safe integer. It names this incarnation alone. */
  readonly handle: number;
  /** The container that holds the request; null once it has finished. */
  container: Container = null;
  /** Prompt tokens; of a session every token up to the end of the present chunk, earlier answers included. */
  numPromptTokens: number;
  /**
   * Tokens found in the prefix cache, or brought by a connector, at the first admission; -1 = not
   * admitted yet. Tokens that a load failed to bring, or that were found to be bad, are not
   * included.
   */
  numCachedTokens = -1;
  /** Times that the request lost its blocks while it ran, and had to be computed again. */
  numPreemptions = 0;
  /** The maximum number of tokens to generate; for a session, of the present answer. */
  maxTokens = 0;
  /** With policy `priority`: a lower value is more important. */
  readonly priority: number;
  /** When the request arrived; of a session, when the present chunk did. Any unit. */
  arrivalTime: number;
  /** Salt of the block hashes; empty = none. */
  readonly cacheSalt: string;
  /** Name of the LoRA adapter; empty = none. */
  readonly adapter: string;
  /** The stop token that ended the request, or the last answer of the session; null if something else ended it. */
  stopReason: number | null = null;
  /**
   * The failure of the request, for people; in most cases the reason why it ended with `error`.
   * Null if there was none, or if the executor failed the request or its step.
   */
  failure: string | null = null;
  /** Uses of its blocks besides the request itself; null = none was ever registered. */
  outstanding: Outstanding | null = null;
  /** The number of anomalies about this request. */
  numAnomalies = 0;
  /** The reason of the last anomaly about this request. */
  lastAnomaly: AnomalyReason | null = null;
  /** Tokens that a connector was to bring at the last admission. */
  numExternalTokens = 0;
  /** Tokens that an asynchronous load has brought since the last lookup. */
  numLoadedTokens = 0;
  /**
   * The load that the request waits for, or that is done while no step has reached the request
   * since. Null: none.
   */
  load: Load | null = null;
  /** Loads of this request that failed, wholly or in part. */
  numFailedLoads = 0;
  /** The step that began its last asynchronous load; -1 = it had none. */
  loadStep = -1;
  /** The step that was scheduled last when the request ended; -1 = it has not ended. */
  endedStep = -1;
  /**
   * Blocks from before a preemption that a transfer still used when the request was preempted. They stay pinned until
   * that use ends.
   */
  keptBlocks: Int32Array | null = null;
  /**
   * Whether it has ended, a connector delayed the release of its blocks, and they have been freed
   * since: see `Plan.failedHandles`.
   */
  isGone = false;
  /** The client's data for the connector; null = none. */
  readonly transferParams: Readonly<Record<string, unknown>> | null;
  /**
   * The client's data for the executor; for a session those of the present chunk, or else of `add`.
   */
  params: unknown = undefined;
  /** The connector's data for the client when the request ended; null = none. */
  finishedParams: Readonly<Record<string, unknown>> | null = null;
  /** The streaming input of the request; null if it was not added as resumable. */
  readonly session: Session | null;
  /** The grammar that constrains its tokens, as it was given to `add`; null = none. */
  readonly grammar: Grammar | null;

  /** The client's `timeoutMs`; Infinity = no limit. */
  readonly timeoutMs: number;
  /** When `add` took the request. */
  readonly addedAt: number;
  /** When the request was admitted to a step for the first time. */
  firstScheduledAt = -1;
  /** When the first generated token came; of a session, that of its first answer. */
  firstTokenAt = -1;
  /** When the request ended, for whatever reason. */
  finishedAt = -1;
  /** When the wait named by `waitReason` began, or when the request began to run. */
  waitingSince: number;
  /** If a rule needs it: whether its last step left tokens to compute (vLLM `is_prefill_chunk`). */
  isPrefilling = false;
  /** @internal False: the request is not in `SchedulerState.prefills`. */
  mayReserve = false;
  /**
   * True: the request was at the head of its queue and was skipped, because `maxLoras` other
   * adapters ran.
   */
  waitsForAdapter = false;

  /** @internal Prompt tokens of this request in the backlog; 0 = it was admitted, or has ended. */ backlogTokens = 0;
  // Links of the waiting container that may hold the request, its place among the skipped requests, and its deadlines.
  /** @internal */ prev: Request | null = null;
  /** @internal */ next: Request | null = null;
  /** @internal */ heapIndex = -1;
  /** @internal */ order = 0;
  /** @internal The earliest of the three deadlines below, or `NO_DEADLINE`. */ deadline = NO_DEADLINE;
  /** @internal When its present wait has to be over. */ waitDeadline = NO_DEADLINE;
  /** @internal When it has to be scheduled. */ queueDeadline = NO_DEADLINE;
  /** @internal When it has to end, or its session to answer the present chunk. */ wholeDeadline =
    NO_DEADLINE;
  /** @internal */ deadlineIndex = -1;
  /** @internal */ forgetStopReason = false;
  /** @internal The connector could not say yet what it can load, and is asked again. */ asksLater = false;
  /** @internal With `asksLater`: the step in which it was asked last, or the one before it was woken. */
  askedStep = -1;
  /** @internal The connector was asked to stop sending its blocks. */ cancelled = false;
  /** @internal */ readonly grammarCalls: GrammarCalls | null;

  /** @internal */
  constructor(
    input: ParsedRequest,
    handle: number,
    slot: number,
    limits: RequestLimits,
    session: Session | null,
  ) {
    this.tokensBase = input.prompt.length;
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

  /** Known tokens: the prompt, and the generated tokens. */
  get numTokens(): number {
    return this.tokensBase + this.clock.sampled;
  }
  /** @internal */
  set numTokens(count: number) {
    this.tokensBase = count - this.clock.sampled;
    this.clock.isDisturbed = true;
  }

  /** Tokens whose KV exists, or will exist once the steps in flight have run (optimistic, as in vLLM). */
  get numComputedTokens(): number {
    return this.computedBase + this.clock.planned;
  }
  /** @internal */
  set numComputedTokens(count: number) {
    this.computedBase = count - this.clock.planned;
    this.clock.isDisturbed = true;
  }

  /** Tokens that steps in flight are expected to bring. */
  get numOutputPlaceholders(): number {
    return this.placeholdersBase + this.clock.ahead;
  }
  /** @internal */
  set numOutputPlaceholders(count: number) {
    this.placeholdersBase = count - this.clock.ahead;
    this.clock.isDisturbed = true;
  }

  /** Known generated tokens; of a session those that answer the present chunk. */
  get numOutputTokens(): number {
    return this.numTokens - this.numPromptTokens;
  }

  /** Whether the request has ended. Its blocks may still be in use (`outstanding`). */
  get isFinished(): boolean {
    return this.finishCode !== FinishCode.none;
  }

  /**
   * Why the request ended; null while it continues. The end of one answer of a session does not
   * count here: see
   * `StepOutputs`.
   */
  get finishReason(): FinishReason | null {
    return finishReasonOf(this.finishCode);
  }

  /** For `util.inspect` and `console.log`: id, handle, status, token counts, and how the request ended. */
  [INSPECT](depth: number, options: object): string {
    return showFacts('Request', depth, options, requestFacts(this));
  }

  /**
   * The event that the request has waited for since `waitingSince`; null while it runs and after it
   * has finished.
   */
  get waitReason(): WaitReason | null {
    return waitReason(this);
  }
}
