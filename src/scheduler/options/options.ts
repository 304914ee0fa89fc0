import type { Placement, PlacementOptions } from '../../core/placement.js';
import type { SchedulerConnector } from '../connector/connector.js';
import type { ConnectorMethods } from '../connector/connector-methods.js';
import type { Deadlines } from '../request/wait.js';
import type { Deviations } from './deviations.js';

/** Options of a scheduler, under vLLM's names. Only `numBlocks` has no default. */
export interface SchedulerOptions extends PlacementOptions {
  /** Blocks of the KV pool, null block 0 included (vLLM's num_gpu_blocks). 2 to 1,048,576. */
  numBlocks: number;
  /** Tokens a block. Default 16. */
  blockSize?: number;
  /** Most requests that run at once. Default 256. */
  maxNumSeqs?: number;
  /** Most tokens scheduled in one step. Default 8192. */
  maxNumBatchedTokens?: number;
  /** Most tokens of one request, prompt and output. Default 8192. */
  maxModelLen?: number;
  /** Default true. */
  enablePrefixCaching?: boolean;
  /** Order of admission and choice of preemption victims. Default `fcfs`. */
  policy?: 'fcfs' | 'priority';
  /** A prompt may be computed over several steps. Default true; false needs maxNumBatchedTokens >= maxModelLen. */
  enableChunkedPrefill?: boolean;
  /** Most tokens one request gets in one step; 0 = no such cap. Default 0. */
  longPrefillTokenThreshold?: number;
  /** A request is admitted only when all its known tokens fit the free blocks (scheduler_reserve_full_isl). Default true. */
  reserveFullIsl?: boolean;
  /** Steps in flight: 1 decides as vLLM's Scheduler, 2 and 3 as its AsyncScheduler. Default 1. */
  pipelineDepth?: 1 | 2 | 3;
  /** Draft tokens a step, 0 to 64. Default 0. */
  numSpeculativeTokens?: number;
  /** Where drafts come from; decides lookahead and what a prefix hit gives. Default `ngram`. */
  speculativeMethod?: 'ngram' | 'eagle' | 'draft_model';
  /** Most LoRA adapters in one step (vLLM's max_loras); 0 = no such cap. Default 0. */
  maxLoras?: number;
  /** Rows of the KV slot table: requests that hold blocks at once, running, idle sessions or delayed. Default 2 x maxNumSeqs. */
  numRows?: number;
  /** Key of the block hash, 128 bits. Default: random; give the same one where replicas share a cache. */
  hashSeed?: Uint8Array | bigint | number;
  /** Places where vLLM's behaviour is not copied; all on by default, `false` turns all off. */
  deviations?: Partial<Deviations> | false;
  /** What moves KV blocks between this engine and elsewhere. */
  connector?: SchedulerConnector | null;
  /**
   * Ranks on which the connector's worker side runs, 1 to 65,536: a connector that does not say which of them report is waited
   * for on all. Default: those that the connector declares, else 1; of an engine the number of its workers.
   */
  numRanks?: number;
  /**
   * What becomes of a request whose KV could not be loaded (kv_load_failure_policy): it ends with `error`, or computes
   * what is missing. Default `fail`.
   */
  loadFailurePolicy?: 'fail' | 'recompute';
  /**
   * What an abort of a request does that has finished and whose blocks the connector still reads: nothing, or the connector
   * is asked to stop. In both cases they come back when it has reported the request. Default `on-report`.
   */
  reclaim?: 'on-report' | 'on-confirmation';
  /** How long requests may wait, each wait for itself; `false` = for ever. */
  deadlines?: Partial<Deadlines> | false;
  /** Clock, in milliseconds, never going back. Default performance.now. */
  now?: () => number;
  /** Plans say which blocks were taken from the pool, and which nobody finds any more. Default false. */
  reportBlocks?: boolean;
  /** Throw anomalies instead of counting them. Default false. */
  strict?: boolean;
  /** Records every input and every command. */
  log?: LogSink;
}

/** What an option limits where it is not given. */
export const DEFAULT_LIMITS = {
  maxNumSeqs: 256,
  maxNumBatchedTokens: 8192,
  maxModelLen: 8192,
  pipelineDepth: 1,
  numSpeculativeTokens: 0,
} as const;

/** The options, checked, with every default filled in. */
export interface SchedulerConfig {
  readonly numBlocks: number;
  readonly blockSize: number;
  readonly maxNumSeqs: number;
  readonly maxNumBatchedTokens: number;
  readonly maxModelLen: number;
  readonly enablePrefixCaching: boolean;
  readonly policy: 'fcfs' | 'priority';
  readonly enableChunkedPrefill: boolean;
  readonly longPrefillTokenThreshold: number;
  readonly reserveFullIsl: boolean;
  readonly pipelineDepth: number;
  readonly numSpeculativeTokens: number;
  readonly speculativeMethod: 'ngram' | 'eagle' | 'draft_model';
  readonly maxLoras: number;
  readonly numRows: number;
  readonly hashSeed: Uint8Array;
  readonly deviations: Readonly<Deviations>;
  readonly placement: Placement;
  readonly connector: ConnectorMethods | null;
  readonly loadFailurePolicy: 'fail' | 'recompute';
  readonly reclaim: 'on-report' | 'on-confirmation';
  readonly deadlines: Readonly<Deadlines>;
  readonly now: () => number;
  readonly reportBlocks: boolean;
  readonly strict: boolean;
  readonly log: LogSink | null;
}

/** Tokens beyond the scheduled ones that a decode step reserves for drafts (vLLM num_lookahead_tokens). */
export function numLookaheadTokens(
  config: Pick<SchedulerConfig, 'speculativeMethod' | 'numSpeculativeTokens'>,
): number {
  return config.speculativeMethod === 'ngram' ? 0 : config.numSpeculativeTokens;
}

/** Tokens that the whole pool can hold. Block 0 holds none. */
export function poolTokens({ numBlocks, blockSize }: SchedulerConfig): number {
  return (numBlocks - 1) * blockSize;
}

/** Whether the last block of every prefix hit is computed again, because the draft head needs its hidden states. */
export function dropsLastHit(config: SchedulerConfig): boolean {
  return config.speculativeMethod === 'eagle' && config.numSpeculativeTokens > 0;
}

/**
 * Takes the bytes of a log, one record a call, for instance into a file; they are the sink's own. A sink that throws ends
 * the scheduler: what is not in the log cannot be replayed.
 */
export interface LogSink {
  write(bytes: Uint8Array): void;
}
