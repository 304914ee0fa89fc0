import type { DeviceTables } from '../../core/device-tables.js';
import type { StepTables } from '../../core/tables.js';
import type { PlanGroup } from '../../scheduler/plan/plan-group.js';
import type { Grammar } from '../../scheduler/request/grammar.js';
import type { ExecutorLimits } from './executor-limits.js';

/** The fields of a request that an executor reads; the scheduler's `Request` has all of them. */
export interface ExecutorRequest {
  /** External id, as the client gave it; ids may be reused, handles are not. */
  readonly id: string;
  /** Number of this incarnation of the request. A later request in the same slot has another handle. */
  readonly handle: number;
  /** Length of the prompt in tokens. */
  readonly numPromptTokens: number;
  /** Tokens of prompt and answer at which the request ends with `length`, if nothing ends it before. */
  readonly lengthLimit: number;
  /**
   * Name of the LoRA adapter; absent or empty for none. Like `cacheSalt` and the preceding tokens,
   * the adapter determines the KV of a token.
   */
  readonly adapter?: string;
  /** Salt of the prefix cache: requests with different salts share no blocks. Absent or empty for none. */
  readonly cacheSalt?: string;
  /** The grammar that constrains the request's tokens, as the client gave it; null for none. */
  readonly grammar: Grammar | null;
  /**
   * Data from the client for the executor, passed through: sampling parameters, images. In a
   * session: the data of the present chunk.
   */
  readonly params?: unknown;
}

/**
 * The part of a plan that concerns one KV cache group. Entry i of every array belongs to entry i of
 * the plan.
 */
export type ExecutorPlanGroup = Readonly<PlanGroup>;

/**
 * The plan of a step for an executor: parallel arrays in batch order, valid up to `numRequests`. An
 * engine passes a copy of the scheduler's `Plan`, so an executor's writes into the plan change
 * nothing. The requests in the plan and the tables are the scheduler's own, for reading only. The
 * object is reused: an executor may read it until it has answered the step.
 */
export interface ExecutorPlan {
  /**
   * Number of the step, from 0. Numbers may skip, because empty plans have numbers too and are not
   * executed.
   */
  readonly step: number;
  /** Index of the shared arrays that hold this plan, 0 to pipelineDepth. The arrays of one frame never move (CUDA graphs). */
  readonly frame: number;
  /** Entries of the plan, one per request. */
  readonly numRequests: number;
  /** Scheduled tokens of all entries, at least 1 in a plan that an engine hands to its executor. */
  readonly totalTokens: number;
  /** The request of each entry. */
  readonly requests: readonly ExecutorRequest[];
  /** `EntryKind` of each entry: still running, new, or resumed after a preemption. */
  readonly kinds: Uint8Array;
  /** Slot of each entry's request in the native request table. */
  readonly slots: Int32Array;
  /** Tokens to compute per entry, drafts included. */
  readonly numScheduledTokens: Int32Array;
  /** Tokens per entry whose KV exists before this step. */
  readonly numComputedTokens: Int32Array;
  /** Blocks of each entry's request, those taken in this step included. */
  readonly numBlocks: Int32Array;
  /**
   * How many of an entry's `numBlocks` blocks, the last ones, are new in this step. For an admitted
   * entry, all are.
   */
  readonly numNewBlocks: Int32Array;
  /** How many of an entry's scheduled tokens, the last ones, are draft tokens. */
  readonly numDraftTokens: Int32Array;
  /**
   * Draft tokens of entry i from i * maxDrafts on; -1 where a step in flight makes the draft, or
   * for a padding draft (`padDecode`).
   */
  readonly draftTokens: Int32Array;
  /** Row length of `draftTokens`: the maximum number of draft tokens per entry. */
  readonly maxDrafts: number;
  /**
   * How many of an entry's drafts, the last ones, are forbidden by its grammar or are padding. They
   * are -1 and must be rejected.
   */
  readonly numInvalidDraftTokens: Uint8Array;
  /** 1: the entry was not scheduled in the previous step, so a worker that mirrors tokens needs all of them. */
  readonly needsAllTokens: Uint8Array;
  /**
   * The maximum number of tokens that the entry can sample: 0 while known tokens of it remain to be
   * computed, otherwise 1 plus its drafts.
   */
  readonly maxOutputTokens: Uint8Array;
  /**
   * For entries that are not `running`: how many leading blocks the entry already had. They are its
   * cached prefix, or blocks that it held while it waited. Its other blocks were taken from the
   * pool in this step, and their old content is gone. `numComputedTokens` is the number of tokens
   * in the leading blocks that need no computing.
   */
  readonly numHitBlocks: Int32Array;
  /**
   * `numBlocks`, `numNewBlocks` and `numHitBlocks` of each KV cache group, where they count the
   * places of a row. The fields above are those of the first group. Without `kvGroups` there is one
   * group.
   */
  readonly groups: readonly ExecutorPlanGroup[];
  /**
   * Blocks that must be zeroed before the step writes its first token; null if none. There are some
   * if a KV cache group of states (`mamba`) exists beside attention: the blocks that attention took
   * in this step. Kernels read whole blocks. Behind the text they would read an old state, whose
   * bytes need not be valid numbers. Blocks that a connector fills are not included.
   */
  readonly blocksToZero: Int32Array | null;
  /** External ids of the requests that were preempted since the last executed step. */
  readonly preempted: readonly string[];
  /** Handles of the `preempted` requests, in the same order. */
  readonly preemptedHandles: readonly number[];
  /**
   * With `Executor.watchesBlocks`: ids of blocks that were taken from the pool since the last
   * executed step, for entries or for loads of a connector. Their old content is gone from the
   * prefix cache too.
   */
  readonly takenBlocks: Int32Array;
  /**
   * With `Executor.watchesBlocks`: ids of blocks whose hashes were removed since the last executed
   * step, so that no request will hit them. The causes are `resetPrefixCache`, a failed step and a
   * failed load. Some of these blocks may have had no hash. Requests that hold them keep them.
   */
  readonly forgottenBlocks: Int32Array;
  /**
   * With `Executor.watchesBlocks` and `kvGroups`: ids of blocks that running requests dropped since
   * the last executed step. They are left of a window or a chunk, or states that no later token
   * needs. They keep their content, and may be hit, until they appear in `takenBlocks`, possibly of
   * this very plan. With a connector, blocks of ended requests may be included.
   */
  readonly droppedBlocks: Int32Array;
  /**
   * External ids of requests that finished since the last executed step. An id of several such
   * requests appears once.
   */
  readonly finished: readonly string[];
  /** Handles of all requests that finished since the last executed step. */
  readonly finishedHandles: readonly number[];
  /**
   * The entries whose tokens a grammar constrains, ascending. Each entry has 1 + numDraftTokens
   * rows of a bitmask: row j holds the tokens that the grammar allows after j drafts. A step is
   * executed only when its grammars know all earlier tokens.
   */
  bitmaskEntries(): number[];
}

/**
 * Tokens of several plan entries, one entry after the other. Both arrays may be longer than their content.
 */
export interface FlatTokens {
  /** [sum of `counts`] token ids, in the order of the entries. */
  readonly tokens: Int32Array;
  /** [numRequests] number of tokens of each entry. */
  readonly counts: Int32Array;
}

/** The answer of an executor to one step, in plan order. */
export interface ExecutorResult extends FlatTokens {
  /**
   * [numRequests] 0 = good. Any other code: the entry failed, and its request ends with `error`.
   * The other entries continue.
   */
  readonly errors?: Uint8Array;
  /**
   * Draft tokens for the next step, at most numSpeculativeTokens per entry. They are read at
   * `pipelineDepth` 1. With more steps in flight, drafts stay with the executor. The engine reads
   * them only for a next step that is kept back until its grammars know the earlier tokens.
   */
  readonly drafts?: FlatTokens;
  /**
   * One value for each token, in the order of `tokens`: log-probabilities, for instance. A value
   * reaches the reader with its token (`RequestOutput.extras`), or is dropped with its token. The
   * engine does not interpret the values. Extras that are not an array, or are too short, are
   * counted (`wrongAnswers`) and dropped.
   */
  readonly extras?: readonly unknown[];
  /**
   * Ids of blocks whose KV the executor lost, of any request. As after a failed load, each request
   * that holds such a block computes it again, or ends with `error`; `loadFailurePolicy` decides.
   * For such a request, the tokens of this step and of those in flight are dropped, and the blocks
   * leave the prefix cache. Report a block with the first step that may have lacked its KV.
   */
  readonly lostBlocks?: ArrayLike<number>;
}

/**
 * A request that is being submitted, or a chunk of a session. An executor may refuse it because of
 * these fields.
 */
export interface SubmittedRequest {
  /**
   * [length] Token ids of the prompt; for a chunk, the ids that it adds. For reading only, and only
   * during the call.
   */
  readonly prompt: Int32Array;
  /** The client's data for the executor. */
  readonly params: unknown;
  /** The grammar that constrains the tokens; null for none. */
  readonly grammar: Grammar | null;
  /** Name of the LoRA adapter; empty for none. */
  readonly adapter: string;
}

/**
 * Computes steps, strictly in the order of submission. An entry whose known tokens are all computed after the step gets one token,
 * and one more for every draft token that the model accepts. Any other entry gets no token.
 *
 * The engine reads the arrays of an answer when every earlier step was answered. Until then they must stay as they are: an executor
 * that reuses its arrays needs `pipelineDepth` sets of them.
 */
export interface Executor {
  /** false: the engine gathers no tables and passes null instead. Default true. */
  readonly usesTables?: boolean;
  /** The executor's limits. An engine whose options exceed them is refused. Read once. */
  readonly limits?: ExecutorLimits;
  /** true: plans have `takenBlocks`, `droppedBlocks` and `forgottenBlocks`. Default false. */
  readonly watchesBlocks?: boolean;
  /** The device that computes: the host. For an executor on a GPU see `DeviceExecutor`. */
  readonly device?: 'cpu' | undefined;
  /**
   * Computes one step. Steps come in order; up to `pipelineDepth` are submitted before the oldest
   * is answered. A thrown error or a rejection fails the whole step. `execute` may submit and abort
   * requests; it must not step or dispose the engine.
   */
  execute(plan: ExecutorPlan, tables: StepTables | null): ExecutorResult | PromiseLike<ExecutorResult>;
  /**
   * Called for each submitted request, and each chunk of a session, before anything is changed. It
   * refuses what the executor cannot compute, such as tokens outside of its vocabulary or unknown
   * parameters. `submit` or `addChunk` throws the error that this method throws. An error that is
   * no `BlockstepError` becomes the cause of ERR_BLOCKSTEP_BAD_ARG.
   */
  checkRequest?(request: SubmittedRequest): void;
  /**
   * Called with the handles of ended requests, so that the executor can drop its data about them.
   * Every ended request is reported exactly once. This includes a request that was in no plan, and
   * the last request, which no further step follows. Its handle is reported when every step with
   * the request was answered; no later plan has it. Never called after `dispose`. Errors are
   * counted (`wrongAnswers`).
   */
  requestsFinished?(handles: readonly number[]): void;
  /**
   * Makes embedding vectors or scores of texts, for `Engine.embed`. It is independent of steps, and
   * may be called at any time.
   * @param texts token ids of each @param signal its abort withdraws the texts
   * @returns a vector for each text
   */
  embed?(
    texts: readonly Int32Array[],
    signal: AbortSignal | null,
  ): readonly Float32Array[] | PromiseLike<readonly Float32Array[]>;
  /** Called once, when the engine is disposed. Steps may be in flight then; their answers are ignored. */
  dispose?(): void | PromiseLike<void>;
}

/**
 * An executor that may compute on a GPU. The scheduler's state is then mirrored on that GPU, and
 * the tables are gathered there. `execute` receives `DeviceTables`, or `StepTables` where CUDA
 * cannot be used (`backend` of the scheduler's core gives the reason). Only `DeviceTables` have a
 * `descriptor`.
 */
export interface DeviceExecutor extends Omit<Executor, 'device' | 'execute'> {
  /** The device that computes: `cpu`, `cuda` (the GPU 0) or `cuda:N`. Read once, like `stream`. */
  readonly device: string;
  /** The cudaStream_t in which the executor computes, as an address; null on the host. */
  readonly stream: bigint | null;
  /** See `Executor.execute`. All work that reads the tables must be queued in `stream` when `execute` returns. */
  execute(
    plan: ExecutorPlan,
    tables: StepTables | DeviceTables | null,
  ): ExecutorResult | PromiseLike<ExecutorResult>;
}
