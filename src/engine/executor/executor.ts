import type { DeviceTables } from '../../core/device-tables.js';
import type { StepTables } from '../../core/tables.js';
import type { Grammar } from '../../scheduler/request/grammar.js';
import type { ExecutorLimits } from './executor-limits.js';

/** What an executor reads of a request. `Request` of the scheduler has all of it. */
export interface ExecutorRequest {
  readonly id: string;
  /** Names one incarnation of a request; another request in the same slot has another handle. */
  readonly handle: number;
  readonly numPromptTokens: number;
  /** Adapter and salt: they decide the KV of a token besides the tokens before it. Empty for none. */
  readonly adapter?: string;
  readonly cacheSalt?: string;
  /** The grammar that constrains its tokens, as its client gave it. */
  readonly grammar: Grammar | null;
  /** What its client gave for the executor, as it is: how to sample, images, whatever. Of a session: that of the present chunk. */
  readonly params?: unknown;
}

/**
 * What an executor reads of a plan: parallel arrays in batch order, valid up to `numRequests`. An engine hands out a copy of
 * the scheduler's `Plan`, so that what an executor writes into it changes nothing; the requests in it are the scheduler's own
 * and to be read only, as the tables are. The object is reused: an executor may read it until it has answered the step.
 */
export interface ExecutorPlan {
  /** Number of the step. Steps without anything to compute have numbers too, and are not executed. */
  readonly step: number;
  /** Which set of shared arrays this plan lies in, 0 to pipelineDepth: stable memory for whoever captures addresses. */
  readonly frame: number;
  readonly numRequests: number;
  /** Tokens of all entries, at least 1 in a plan that an engine hands to its executor. */
  readonly totalTokens: number;
  readonly requests: readonly ExecutorRequest[];
  /** `EntryKind` of each entry: still running, new, or resumed after a preemption. */
  readonly kinds: Uint8Array;
  readonly slots: Int32Array;
  /** Tokens to compute, drafts included. */
  readonly numScheduledTokens: Int32Array;
  /** Tokens whose KV exists before this step. */
  readonly numComputedTokens: Int32Array;
  /** Blocks of the request, this step's included; the last `numNewBlocks` of them are new. */
  readonly numBlocks: Int32Array;
  readonly numNewBlocks: Int32Array;
  /** Draft tokens among the scheduled ones. */
  readonly numDraftTokens: Int32Array;
  /** Draft tokens of entry i from i * maxDrafts on; -1 where a step in flight makes them. */
  readonly draftTokens: Int32Array;
  readonly maxDrafts: number;
  /** Drafts of each entry, the last ones, that its grammar does not allow: they stand as -1 and are not to be accepted. */
  readonly numInvalidDraftTokens: Uint8Array;
  /** 1: not scheduled in the step before, so a worker that mirrors tokens needs the whole list. */
  readonly needsAllTokens: Uint8Array;
  /** Most tokens that each entry can bring: 0 while known tokens of it remain to be computed, otherwise 1 and its drafts. */
  readonly maxOutputTokens: Uint8Array;
  /**
   * Of an entry that is not `running`: how many leading blocks it did not take from the pool in this step. They are its cached prefix,
   * or what it held while it waited. It took its other blocks, and what these held before is gone. `numComputedTokens` says how much
   * of the leading blocks need not be computed.
   */
  readonly numHitBlocks: Int32Array;
  /** External ids of the requests that were preempted since the step executed before, and their handles, in the same order. */
  readonly preempted: readonly string[];
  readonly preemptedHandles: readonly number[];
  /**
   * With `Executor.watchesBlocks`: blocks that were taken from the pool since the step executed before, for entries or for
   * loads of a connector. What they held before is gone, whoever cached it.
   */
  readonly takenBlocks: Int32Array;
  /**
   * With `Executor.watchesBlocks`: blocks that lost their hashes since then, so that no request will find what they hold now:
   * by `resetPrefixCache`, a failed step or load. Some of them may have had none. Whoever holds them keeps them.
   */
  readonly forgottenBlocks: Int32Array;
  /** External ids under which requests finished since the step executed before, each once, and the handles of all of them. */
  readonly finished: readonly string[];
  readonly finishedHandles: readonly number[];
  /**
   * The entries whose tokens a grammar constrains, ascending. Each stands for 1 + numDraftTokens rows of a bitmask: what the
   * grammar allows after the drafts before it. A step is executed only when its grammars know all that came before.
   */
  bitmaskEntries(): number[];
}

/**
 * Tokens of several plan entries: entry i has `counts[i]` of them, and they lie one entry after the other in `tokens`.
 * Both arrays may be longer than what they hold.
 */
export interface FlatTokens {
  readonly tokens: Int32Array;
  readonly counts: Int32Array;
}

/** The answer of an executor to one step, in plan order. */
export interface ExecutorResult extends FlatTokens {
  /** Non-zero: this entry failed. Its request ends with `error`; the others go on. */
  readonly errors?: Uint8Array;
  /** Drafts for the next step of each entry, at most numSpeculativeTokens. Read with one step in flight only. */
  readonly drafts?: FlatTokens;
  /**
   * Something for each token, in the order of `tokens`: log-probabilities, for instance. It reaches the reader with its token
   * (`RequestOutput.extras`), or is dropped with it. The engine does not look into it. If it is no array, or too short, it is counted
   * and dropped.
   */
  readonly extras?: readonly unknown[];
  /**
   * Ids of blocks whose KV the executor lost, whoever they belong to. As with a load that failed, whoever holds one of them
   * computes it again, or ends with `error`, as `loadFailurePolicy` says; what this step and those in flight bring for it is
   * dropped, and nobody finds the block any more. To be said with the first step that may have been computed without that KV.
   */
  readonly lostBlocks?: ArrayLike<number>;
}

/**
 * Computes steps, strictly in the order in which they are submitted. An entry whose known tokens are all computed by
 * the step gets one token, and one more for every draft token that the model agrees with; any other entry gets none.
 *
 * The arrays of an answer are read when every step before it was answered; until then they stay as they are, so with
 * `pipelineDepth` steps in flight an executor that reuses its arrays needs that many sets.
 */
export interface Executor {
  /** false: the engine spares itself the tables and passes null. Default true. */
  readonly usesTables?: boolean;
  /** What the executor can do at most. An engine whose options ask for more is refused. Read once. */
  readonly limits?: ExecutorLimits;
  /** true: plans say which blocks were taken and forgotten. Default false. */
  readonly watchesBlocks?: boolean;
  /** Where it computes: on the host. For an executor on a GPU see `DeviceExecutor`. */
  readonly device?: 'cpu' | undefined;
  /**
   * Called in order; up to `pipelineDepth` steps are submitted before the oldest was answered. A throw or a rejection
   * fails the whole step. It may submit and abort requests; it must not step or dispose the engine.
   */
  execute(plan: ExecutorPlan, tables: StepTables | null): ExecutorResult | PromiseLike<ExecutorResult>;
  /**
   * Called with the handles of requests that ended, so that whatever is kept for them can be dropped. Every request comes once, also
   * one that was in no plan, and the last one, behind which no step comes. It comes when every step that has the request was answered,
   * and no later plan has it. Not called after `dispose`. What it throws is counted (`wrongAnswers`).
   */
  requestsFinished?(handles: readonly number[]): void;
  /** Called once when the engine is disposed, also with steps in flight, whose answers are then ignored. */
  dispose?(): void | PromiseLike<void>;
}

/**
 * An executor that may compute on a GPU. The state is mirrored there then, and with it come the tables: `execute` is given
 * `DeviceTables`, or `StepTables` where CUDA cannot be used (`backend` of the scheduler's core says why). Only the former
 * have a `descriptor`.
 */
export interface DeviceExecutor extends Omit<Executor, 'device' | 'execute'> {
  /** Where it computes: `cpu`, `cuda` (the GPU 0) or `cuda:N`. Read once, like `stream`. */
  readonly device: string;
  /** The cudaStream_t in which it computes, as an address; null on the host. */
  readonly stream: bigint | null;
  /** See `Executor.execute`. All that reads the tables must be queued in `stream` when this returns. */
  execute(
    plan: ExecutorPlan,
    tables: StepTables | DeviceTables | null,
  ): ExecutorResult | PromiseLike<ExecutorResult>;
}
