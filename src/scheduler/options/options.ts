// `SchedulerOptions`, the checked `SchedulerConfig`, and values derived from it.
import type { Placement, PlacementOptions } from '../../core/placement.js';
import type { BorrowerMethods } from '../borrow/ask-borrower.js';
import type { BorrowingAdapter } from '../borrow/borrowing-adapter.js';
import type { SchedulerConnector } from '../connector/connector.js';
import type { ConnectorMethods } from '../connector/connector-methods.js';
import type { KvEventSink, ParsedKvEventSink } from '../events/kv-event.js';
import type { Deadlines } from '../request/wait.js';
import type { Deviations } from './deviations.js';
import { type KvGroupOptions, type KvGroups, mostPlaces } from './kv-groups.js';
import type { SingleRules, VllmVersion } from './rules.js';

/** Options of a scheduler, under vLLM's names. Only `numBlocks` has no default. */
export interface SchedulerOptions extends PlacementOptions {
  /** Blocks of the KV pool, the null block 0 included (vLLM's num_gpu_blocks). 2 to 1,048,576. */
  numBlocks: number;
  /** Tokens per block. Default 16. */
  blockSize?: number;
  /**
   * KV cache groups, in the order of their block lists. They are for models whose layers are not
   * all alike, such as models with sliding windows or linear attention. Default: one group of full
   * attention.
   */
  kvGroups?: readonly KvGroupOptions[] | null;
  /**
   * With `kvGroups`: tokens of a block hash, a divisor of the block sizes of all groups (vLLM hash_block_size). Default: their greatest common
   * divisor.
   */
  hashBlockSize?: number;
  /** The maximum number of requests that run at once. Default 256. */
  maxNumSeqs?: number;
  /** The maximum number of tokens scheduled in one step. Default 8192. */
  maxNumBatchedTokens?: number;
  /** The maximum number of tokens of one request, prompt and output together. Default 8192. */
  maxModelLen?: number;
  /** Whether requests share the blocks of equal prefixes. Default true. */
  enablePrefixCaching?: boolean;
  /** Order of admission, and choice of the victims of preemption. Default `fcfs`. */
  policy?: 'fcfs' | 'priority';
  /**
   * Whether a prompt may be computed over several steps. Default true; false needs maxNumBatchedTokens >=
   * maxModelLen.
   */
  enableChunkedPrefill?: boolean;
  /** The maximum number of tokens that one request gets in one step; 0 = no limit. Default 0. */
  longPrefillTokenThreshold?: number;
  /**
   * True: a request is admitted only if all its known tokens fit the free blocks (scheduler_reserve_full_isl).
   * Default true.
   */
  reserveFullIsl?: boolean;
  /**
   * The maximum number of steps in flight. 1 decides like vLLM's Scheduler; 2 is async scheduling
   * (vLLM `async_scheduling`), and 3 is async scheduling with one step more. Default 1.
   */
  pipelineDepth?: 1 | 2 | 3;
  /** Draft tokens per request and step, 0 to 64. Default 0. */
  numSpeculativeTokens?: number;
  /**
   * The source of drafts. It decides the lookahead, and whether the last block of a prefix hit
   * counts. Default
   * `ngram`.
   */
  speculativeMethod?: 'ngram' | 'eagle' | 'draft_model';
  /**
   * The maximum number of LoRA adapters in one step (vLLM's max_loras); 0 = no limit. Default 0.
   */
  maxLoras?: number;
  /**
   * Rows of the KV slot table, which is the number of requests that can hold blocks at once. These
   * are running requests, idle sessions, and finished requests whose blocks are still used. Default
   * 2 x maxNumSeqs, at most 4,096.
   */
  numRows?: number;
  /** Key of the block hash, 128 bits. Default: random. Replicas that share a cache need the same key. */
  hashSeed?: Uint8Array | bigint | number;
  /**
   * The version of vLLM whose rules apply where versions differ: `vllm-0.22` (commit 28be48fa) or
   * `vllm-0.27` (017e9f444). Deviations that this version has fixed itself are then on even with
   * `deviations: false`. Default: the rules of `vllm-0.22`, with three of `vllm-0.27` that give
   * more hits or fewer preemptions, and all deviations.
   */
  like?: VllmVersion | null;
  /**
   * Share of all blocks that an admission leaves free while other requests run, 0 to less than 1 (vLLM #44594). Each running request may need a block
   * at any time: 0.01 to 0.05 prevents preemptions in a tight pool. Default 0.
   */
  watermark?: number;
  /**
   * Tokens of `maxNumBatchedTokens` that each scheduled request costs on top of its own: slots that a drafter of parallel tokens needs
   * (vLLM #51725). 0 to 64. Default 0.
   */
  draftSlots?: number;
  /**
   * Where vLLM's behaviour is a failure, blockstep differs by a named deviation
   * (docs/guarantees.md). `true`: all are on. `false`: all are off. A list of names: these are off,
   * and all others on. Default true.
   */
  deviations?: boolean | readonly string[];
  /** The connector, which moves KV blocks between this engine and elsewhere. Default: none. */
  connector?: SchedulerConnector | null;
  /**
   * An adapter that takes requests out of the queues before a step is planned and puts them back
   * afterwards. It cannot be combined with `log` or with `authority: 'device'`. Default: none.
   */
  borrower?: BorrowingAdapter | null;
  /**
   * Ranks on which the worker side of the connector runs, 1 to 65,536. If the connector does not
   * say which ranks report (`reporters`), all are expected to. Default: the ranks that the
   * connector declares, else 1; for an engine the number of its workers.
   */
  numRanks?: number;
  /**
   * The policy for a request whose KV could not be loaded (kv_load_failure_policy). `fail`: it ends
   * with `error`.
   * `recompute`: it computes the missing tokens. Default `fail`.
   */
  loadFailurePolicy?: 'fail' | 'recompute';
  /**
   * The reaction to an abort of a finished request whose blocks the connector still reads.
   * `on-report`: none. `on-confirmation`: the connector is asked to stop. In both cases the blocks
   * are freed when the connector has reported the request. Default `on-report`.
   */
  reclaim?: 'on-report' | 'on-confirmation';
  /** How long requests may wait, in milliseconds, for each kind of wait; `false` = for ever. */
  deadlines?: Partial<Deadlines> | false;
  /** The scheduler's clock, in milliseconds; it must never go back. Default performance.now. */
  now?: () => number;
  /**
   * A subscriber of prefix cache changes (vLLM `kv_events_config`). It cannot be combined with
   * `authority: 'device'`. Default: none.
   */
  kvEvents?: KvEventSink | null;
  /**
   * True: plans list the blocks that were taken from the pool, and the blocks that can no longer be
   * found. Default false.
   */
  reportBlocks?: boolean;
  /**
   * Whether requests that decode in step are counted together (`scheduler/steady`). It changes no decision, only the time
   * of a step. Default true.
   */
  steadyDecode?: boolean;
  /** True: anomalies are thrown as well as counted. Default false. */
  strict?: boolean;
  /** The sink of a log of every input and every command. Default: no log. */
  log?: LogSink;
}

/** Defaults of the options that limit something. */
export const DEFAULT_LIMITS = {
  maxNumSeqs: 256,
  maxNumBatchedTokens: 8192,
  maxModelLen: 8192,
  pipelineDepth: 1,
  numSpeculativeTokens: 0,
} as const;

/** Checked `SchedulerOptions`, with every default filled in. */
export interface SchedulerConfig {
  /** Blocks of the KV pool, the null block 0 included. */
  readonly numBlocks: number;
  /** Tokens per block. */
  readonly blockSize: number;
  /** KV cache groups; null: one group of full attention. */
  readonly kvGroups: KvGroups | null;
  /** The maximum number of requests that run at once. */
  readonly maxNumSeqs: number;
  /** The maximum number of tokens scheduled in one step. */
  readonly maxNumBatchedTokens: number;
  /** The maximum number of tokens of one request, prompt and output together. */
  readonly maxModelLen: number;
  /** Whether requests share the blocks of equal prefixes. */
  readonly enablePrefixCaching: boolean;
  /** Order of admission, and choice of the victims of preemption. */
  readonly policy: 'fcfs' | 'priority';
  /** Whether a prompt may be computed over several steps. */
  readonly enableChunkedPrefill: boolean;
  /** The maximum number of tokens that one request gets in one step; 0 = no limit. */
  readonly longPrefillTokenThreshold: number;
  /** True: a request is admitted only if all its known tokens fit the free blocks. */
  readonly reserveFullIsl: boolean;
  /** The maximum number of plans with tokens in flight at once, 1 to 3. */
  readonly pipelineDepth: number;
  /** The maximum number of draft tokens per request and step, 0 to 64. */
  readonly numSpeculativeTokens: number;
  /**
   * The source of drafts. It decides the lookahead, and whether the last block of a prefix hit
   * counts.
   */
  readonly speculativeMethod: 'ngram' | 'eagle' | 'draft_model';
  /** The maximum number of LoRA adapters in one step; 0 = no limit. */
  readonly maxLoras: number;
  /** Rows of the KV slot table, which is the number of requests that can hold blocks at once. */
  readonly numRows: number;
  /** Key of the block hash, 16 bytes. */
  readonly hashSeed: Uint8Array;
  /** Share of all blocks that an admission leaves free while other requests run. */
  readonly watermark: number;
  /** Tokens of `maxNumBatchedTokens` that each scheduled request costs on top of its own. */
  readonly draftSlots: number;
  /** Deviations from vLLM by their names, each on (true) or off. */
  readonly deviations: Readonly<Record<string, boolean>>;
  /** Where the state is kept, and whether host or GPU decides. */
  readonly placement: Placement;
  /** The methods of the connector, looked up once; null = no connector. */
  readonly connector: ConnectorMethods | null;
  /** The methods of the borrowing adapter, looked up once; null = no adapter. */
  readonly borrower: BorrowerMethods | null;
  /**
   * The policy for a request whose KV could not be loaded: it ends with `error`, or computes its
   * KV.
   */
  readonly loadFailurePolicy: 'fail' | 'recompute';
  /**
   * Whether the connector is asked to stop (`on-confirmation`) when a request whose blocks it still
   * sends is aborted.
   */
  readonly reclaim: 'on-report' | 'on-confirmation';
  /** How long requests may wait, in milliseconds, for each kind of wait; 0 = for ever. */
  readonly deadlines: Readonly<Deadlines>;
  /** The scheduler's clock, in milliseconds. */
  readonly now: () => number;
  /** The subscriber of prefix cache changes; null = none. */
  readonly kvEvents: ParsedKvEventSink | null;
  /**
   * Whether plans list the blocks that were taken from the pool, and the blocks that can no longer
   * be found.
   */
  readonly reportBlocks: boolean;
  /**
   * Whether requests that decode in step are counted together, where the other options allow it.
   */
  readonly steadyDecode: boolean;
  /** Whether anomalies are thrown as well as counted. */
  readonly strict: boolean;
  /** Receives every input and every command; null = no log. */
  readonly log: LogSink | null;
}

/** The same for the scheduler itself: with the rules that follow from `like`. */
export interface RuledConfig extends SchedulerConfig, Readonly<SingleRules> {
  readonly deviations: Readonly<Deviations>;
}

/** A checked configuration with the rules that its public type does not name. */
export function ruledConfig(config: SchedulerConfig): RuledConfig {
  return config as RuledConfig;
}

/**
 * Tokens beyond the scheduled ones for which a decode step reserves blocks, for drafts (vLLM num_lookahead_tokens).
 */
export function numLookaheadTokens(
  config: Pick<SchedulerConfig, 'speculativeMethod' | 'numSpeculativeTokens'>,
): number {
  return config.speculativeMethod === 'ngram' ? 0 : config.numSpeculativeTokens;
}

/**
 * The maximum number of tokens by which a request may be taken back when drafts in flight that
 * count as computed are rejected. They are the drafts of earlier steps in flight, and a last token
 * that is computed again. 0 without the deviation `keepDraftWindows`, and if steps in flight keep
 * all.
 */
export function numUnsettledTokens(
  config: Pick<RuledConfig, 'pipelineDepth' | 'numSpeculativeTokens' | 'deviations' | 'windowBasis'>,
): number {
  const { pipelineDepth, numSpeculativeTokens, deviations, windowBasis } = config;
  if (windowBasis === 'processed') return 0;
  const inFlight = (pipelineDepth - 1) * numSpeculativeTokens;
  return deviations.keepDraftWindows && inFlight > 0 ? inFlight + 1 : 0;
}

/**
 * Tokens of the longest text that a step can compute from its first token on. It is Infinity unless
 * a step must compute a text whole. `draftSlots` take a part of the token budget. If states are
 * kept at the ends of blocks, a step computes no part of a block that the budget alone would hold.
 */
export function wholeStepTokens(config: RuledConfig): number {
  const { maxNumBatchedTokens, draftSlots, enableChunkedPrefill, longPrefillTokenThreshold } = config;
  const { kvGroups, blockSize, deviations } = config;
  const room = maxNumBatchedTokens - draftSlots;
  const isWhole =
    !enableChunkedPrefill && (longPrefillTokenThreshold === 0 || longPrefillTokenThreshold > room);
  const aligns = kvGroups?.alignsSteps === true && room < blockSize;
  const isCut = aligns && (blockSize <= maxNumBatchedTokens || !deviations.wholeStates);
  return isWhole || isCut ? room : Number.POSITIVE_INFINITY;
}

/**
 * The maximum number of tokens that the whole pool can hold for one request. The null block and the
 * blocks of sinks hold none.
 */
export function poolTokens(config: RuledConfig): number {
  const { numBlocks, blockSize, kvGroups, maxModelLen } = config;
  if (kvGroups === null) return (numBlocks - 1) * blockSize;
  const free = numBlocks - 1 - numSinkBlocks(kvGroups);
  const drafts = (config.deviations.capDrafts ? numLookaheadTokens(config) : 0) + numUnsettledTokens(config);
  const context = { ...config, hasConnector: config.connector !== null };
  const fits = (tokens: number): boolean => {
    const places = kvGroups.list.map((group) => mostPlaces(group, tokens, context, drafts));
    return places.reduce((sum, each) => sum + each, 0) <= free;
  };
  // This finds the largest number of tokens that fits; more tokens never need fewer blocks.
  let [low, high] = [0, maxModelLen];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (fits(middle)) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Blocks that groups with sinks permanently take out of the pool. */
export function numSinkBlocks({ list }: KvGroups): number {
  return list.reduce((sum, { sinkTokens, blockSize }) => sum + sinkTokens / blockSize, 0);
}

/**
 * Whether the last block of every prefix hit is computed again: the draft head of `eagle` needs its hidden states.
 */
export function dropsLastHit(config: SchedulerConfig): boolean {
  return config.speculativeMethod === 'eagle' && config.numSpeculativeTokens > 0;
}

/**
 * Receives the bytes of a log, for instance to write them to a file. The bytes belong to the sink.
 * Each call has one record; the first call has the magic and the version. A sink that throws ends
 * the scheduler, because a missing record makes the log unusable.
 */
export interface LogSink {
  /** Takes one record (the first call: magic and version) in a new array, which then belongs to the sink. */
  write(bytes: Uint8Array): void;
}
