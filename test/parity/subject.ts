// The calls and fields that the runner needs of a scheduler.
import type { ConnectorOutput, Finished, Match } from '../../src/scheduler/connector/connector.js';
import type {
  KvBlocksCleared,
  KvBlocksRemoved,
  KvBlocksStored,
} from '../../src/scheduler/events/kv-event.js';
import type { FinishReason } from '../../src/scheduler/request/status.js';

const ENDED: Readonly<Record<FinishReason, string>> = {
  stop: 'FINISHED_STOPPED',
  length: 'FINISHED_LENGTH_CAPPED',
  abort: 'FINISHED_ABORTED',
  error: 'FINISHED_ERROR',
};

/** vLLM's name of a request's status, such as WAITING or FINISHED_STOPPED. */
export function vllmStatus({ status, finishReason = null }: Told): string {
  return status === 'FINISHED' && finishReason !== null ? ENDED[finishReason] : status;
}

/**
 * The interface of a scheduler under test: the part of the public API that a trace can drive or
 * observe. The real Scheduler fits it, as does any other implementation that is compared with vLLM.
 */
export interface SubjectRequest {
  readonly id: string;
  /** Names this request and never a later one with the same id. */
  readonly handle: number;
  /** Where the core keeps its rows. */
  readonly slot: number;
  /**
   * vLLM's name of the status; a request that has ended may be `FINISHED`, with its end in
   * `finishReason`. See `vllmStatus`.
   */
  readonly status: string;
  readonly finishReason?: FinishReason | null;
  readonly numTokens: number;
  readonly numComputedTokens: number;
  readonly numOutputPlaceholders: number;
  readonly numDraftTokens: number;
  /** The stop token that ended the request, if one did. */
  readonly stopReason: number | null;
  /** The parameters that the connector sends to the client of a request whose blocks it keeps. */
  readonly finishedParams: object | null;
}

/** The fields of a request that a connector sees. */
export type Told = Pick<SubjectRequest, 'id' | 'handle' | 'status' | 'finishReason'>;

/** The layers that share one block table, for each request a row of blocks (vLLM `KVCacheGroupSpec`). */
export interface SubjectKvGroup {
  readonly type: 'full' | 'mla' | 'sink' | 'sliding' | 'chunked' | 'mamba';
  /** Tokens of a block; `SubjectOptions.blockSize` if it is not given. */
  readonly blockSize?: number;
  /** Tokens that a token attends to, its own included: sliding groups. */
  readonly window?: number;
  /** Tokens of a chunk, beyond which no token attends: chunked groups. */
  readonly chunk?: number;
  /** The states that a Mamba group keeps. */
  readonly mode?: 'none' | 'all' | 'align';
  /** State blocks that a Mamba group keeps for drafts. */
  readonly numSpeculativeBlocks?: number;
  /** Tokens of the sink, whose blocks nobody else gets. */
  readonly sinkTokens?: number;
  /** The group has layers of the drafter. */
  readonly eagle?: boolean;
}

/** The part of a plan for one group. A row counts null places too, whose block is 0. */
export interface SubjectGroupPlan {
  /** Places of the rows of the requests after schedule(). */
  readonly numBlocks: Int32Array;
  /** How many of them, at the end, this step added or rewrote. */
  readonly numNewBlocks: Int32Array;
  readonly numCommonPrefixBlocks: number;
}

/** The fields of an event for its group. */
export interface SubjectEventGroup {
  readonly group: number;
  readonly blockSize: number;
  readonly kind: SubjectKvGroup['type'];
  /** null: the group is not sliding. */
  readonly window: number | null;
}

/** An event of the prefix cache; blocks that a stored one names follow each other without a hole. */
export type SubjectKvEvent =
  | (KvBlocksStored & SubjectEventGroup)
  | (KvBlocksRemoved & { readonly group: number })
  | KvBlocksCleared;

/** A plan, as far as it is observed: entries 0 to numRequests - 1, in scheduling order. */
export interface SubjectPlan {
  readonly numRequests: number;
  readonly totalTokens: number;
  readonly requests: readonly SubjectRequest[];
  /** 0 running, 1 new, 2 resumed. */
  readonly kinds: Uint8Array;
  readonly slots: Int32Array;
  readonly numScheduledTokens: Int32Array;
  /** Before this step. */
  readonly numComputedTokens: Int32Array;
  /** Blocks that the request holds after schedule(), and how many of them this step added at the end. */
  readonly numBlocks: Int32Array;
  readonly numNewBlocks: Int32Array;
  /** Drafts of entry i: numDraftTokens[i] tokens from draftTokens[i * maxDrafts] on. */
  readonly numDraftTokens: Int32Array;
  readonly draftTokens: Int32Array;
  readonly maxDrafts: number;
  /** 1: not scheduled in the step before, so vLLM sends all its tokens again. */
  readonly needsAllTokens: Uint8Array;
  readonly preempted: readonly string[];
  readonly finished: readonly string[];
  readonly numCommonPrefixBlocks: number;
  /** The three numbers before for each group; absent: there is one, and they are its numbers. */
  readonly groups?: readonly SubjectGroupPlan[];
  /** Blocks that must be zeroed before they are written; null = none. */
  readonly blocksToZero?: Int32Array | null;
  /** Sampling waits until the batches before were updated, because a grammar must see their tokens first. */
  readonly pendingStructuredOutputTokens: boolean;
  /** Drafts of each entry that a grammar refused after they were scheduled. */
  readonly numInvalidDraftTokens: Uint8Array;
  /** Entries that have rows in the grammar bitmask, in its order. */
  bitmaskEntries(): readonly number[];
  /** Output tokens of entry i before this step, those that steps in flight will bring included. */
  numOutputTokens(i: number): number;
}

/** The result of update(): rows 0 to length - 1. */
export interface SubjectOutputs {
  readonly length: number;
  readonly requests: readonly SubjectRequest[];
  readonly tokens: Int32Array;
  readonly tokenOffsets: Int32Array;
  readonly tokenCounts: Int32Array;
  /** 0 none, 1 stop, 2 length, 3 abort, 4 error. */
  readonly finishReasons: Uint8Array;
}

/** The connector that a scheduler asks: of SchedulerConnector what vLLM's scheduler calls. */
export interface SubjectConnector {
  onNewRequest(request: Told): void;
  getNumNewMatchedTokens(request: Told, numLocalTokens: number): Match;
  updateStateAfterAlloc(request: Told, blocks: readonly Int32Array[], numExternalTokens: number): void;
  buildMetadata(plan: Pick<SubjectPlan, 'totalTokens'>): unknown;
  updateConnectorOutput(output: ConnectorOutput): void;
  requestFinished(
    request: Told,
    reason: FinishReason,
    handOver: { readonly blocks: readonly Int32Array[] },
  ): Finished;
}

/** Tokens per entry of a plan, flat and in plan order. */
export interface FlatTokens {
  tokens: Int32Array;
  counts: Int32Array;
}

export interface SubjectInput {
  id: string;
  prompt: Int32Array;
  maxTokens: number;
  minTokens: number;
  eosTokenId: number;
  ignoreEos: boolean;
  stopTokenIds: readonly number[];
  priority: number;
  arrivalTime: number;
  cacheSalt?: string;
  adapter?: string;
  resumable?: boolean;
  grammar?: SubjectGrammar;
}

/** The calls of a scheduler to the grammar of a request. */
export interface SubjectGrammar {
  ready(): boolean;
  acceptTokens(tokens: Int32Array): boolean;
  /** How many leading tokens it would accept. */
  validateTokens(tokens: Int32Array): number;
}

/** A further chunk of a session. */
export type SubjectChunk = Pick<
  SubjectInput,
  'prompt' | 'maxTokens' | 'minTokens' | 'eosTokenId' | 'ignoreEos' | 'stopTokenIds' | 'arrivalTime'
>;

/** Readers of the native core. They see every operation that was queued before. */
export interface SubjectCore {
  readonly freeBlocks: number;
  readonly publishedBlocks: number;
  /** Absent: of all blocks but the null block each can be in use. */
  readonly config?: { readonly numBlocks: number; readonly keptBlocks?: number };
  /** 1 - free blocks / usable blocks. */
  readonly usage: number;
  /** Free block ids, next to be allocated first. */
  freeQueue(): Int32Array;
  /** Ids of blocks that carry a hash, ascending. */
  published(): Int32Array;
  readonly native: {
    /** Copies the row of a slot from a place on, of group 0 unless another one is named; null places are 0. */
    readBlocks(slot: number, from: number, out: Int32Array, group?: number): number;
  };
  /** The group whose hash a block carries; absent where there is one group. */
  publishedGroup?(id: number): number;
}

export interface Subject<Plan extends SubjectPlan = SubjectPlan> {
  add(input: SubjectInput): unknown;
  addChunk(id: string, chunk: SubjectChunk): unknown;
  endSession(id: string): unknown;
  abort(ids: string | readonly string[]): string[];
  abortAll(): string[];
  schedule(): Plan;
  update(plan: Plan, result: FlatTokens, output?: ConnectorOutput): SubjectOutputs;
  /**
   * Takes reports of workers when there is no plan to update; requests that fail get their rows in
   * the next update.
   */
  updateTransfers(output: ConnectorOutput): void;
  updateDraftTokens(plan: Plan, drafts: FlatTokens): void;
  /** Before a plan with pendingStructuredOutputTokens is sampled: the drafts behind its placeholders. */
  replaceDraftTokens(plan: Plan, drafts: FlatTokens): void;
  resetPrefixCache(options: { resetRunning: boolean }): { ok: boolean };
  pause(mode: 'new' | 'all'): void;
  resume(): void;
  readonly numUnfinished: number;
  get(id: string): SubjectRequest | undefined;
  /** Queues in their order (priority policy: sorted), and every known request in the order of its first add. */
  inspect(): {
    running: readonly string[];
    waiting: readonly string[];
    skipped: readonly string[];
    requests: readonly SubjectRequest[];
    /** Finished ones whose blocks are still read or written. */
    draining: readonly SubjectRequest[];
  };
  /** Throws if an invariant is broken. */
  verify(): void;
  dispose(): void;
  readonly core: SubjectCore;
}

/** The rules in which versions of vLLM differ; names and meaning as in SchedulerOptions. */
export interface SubjectRules {
  freeOrder?: 'tail' | 'unhashedFirst';
  admissionLookahead?: boolean;
  watermark?: number;
  loadReservation?: boolean;
  draftSlots?: number;
  padDecode?: boolean;
  fenceFrees?: boolean;
  sessionSeats?: 'running' | 'withIdle';
  preemptedOutputs?: 'deliver' | 'await' | 'discard';
  preemptedIds?: 'step' | 'sinceLast';
  windowBasis?: 'scheduled' | 'processed';
  retention?: 'all' | 'reachable' | number;
  stateLoads?: boolean;
  promptTails?: boolean;
  grammarFailures?: 'schedule' | 'update';
}

/** The options that a trace sets; names and meaning as in SchedulerOptions. */
export interface SubjectOptions extends SubjectRules {
  numBlocks: number;
  /** vLLM's `cache_config.block_size`. */
  blockSize: number;
  /** Absent: one group of full attention. */
  kvGroups?: readonly SubjectKvGroup[];
  /** Tokens that one hash of a prompt covers; absent: the greatest common divisor of the block sizes. */
  hashBlockSize?: number;
  kvEvents?: { onEvents(events: readonly SubjectKvEvent[]): void };
  maxNumSeqs: number;
  maxNumBatchedTokens: number;
  maxModelLen: number;
  enablePrefixCaching: boolean;
  policy: 'fcfs' | 'priority';
  longPrefillTokenThreshold: number;
  reserveFullIsl: boolean;
  enableChunkedPrefill: boolean;
  pipelineDepth: 1 | 2 | 3;
  numSpeculativeTokens: number;
  speculativeMethod?: 'ngram' | 'eagle' | 'draft_model';
  maxLoras: number;
  numRows: number;
  hashSeed: number;
  connector?: SubjectConnector;
  loadFailurePolicy?: 'fail' | 'recompute';
  /** The commit of vLLM whose rules hold; the rules below override it. */
  like: '28be48fa' | '017e9f444';
  deviations: false;
  deadlines: false;
  now: () => number;
  strict: boolean;
}

/** Makes the scheduler that a trace is replayed on. */
export type MakeSubject = (options: SubjectOptions) => Subject;
