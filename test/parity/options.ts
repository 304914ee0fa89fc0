// The options of the scheduler that a trace was recorded on.
import type { SchedulerOptions } from '../../src/index.js';
import { DEVIATIONS, type Deviations } from '../../src/scheduler/options/deviations.js';
import { MENDED } from '../../src/scheduler/options/rules.js';
import type { TraceKvEvents } from './kv-events.js';
import { depthOf } from './pipeline.js';
import type { SubjectConnector, SubjectKvGroup, SubjectOptions, SubjectRules } from './subject.js';
import type { Trace, TraceEvent, TraceKvGroup } from './trace.js';

function groupOf(group: TraceKvGroup): SubjectKvGroup {
  const shared = { blockSize: group.block_size, ...(group.eagle === 1 ? { eagle: true } : {}) };
  switch (group.type) {
    case 'sink':
      return { type: group.type, ...shared, sinkTokens: group.sink_len };
    case 'sliding':
      return { type: group.type, ...shared, window: group.sliding_window };
    case 'chunked':
      return { type: group.type, ...shared, chunk: group.chunk };
    case 'mamba': {
      const { type, mode, num_speculative_blocks: numSpeculativeBlocks } = group;
      return { type, ...shared, mode, numSpeculativeBlocks };
    }
    default:
      return { type: group.type, ...shared };
  }
}

export type Rules = SubjectRules & Pick<SubjectOptions, 'like'>;

/** The commit of vLLM whose rules hold in a trace. */
export function versionOf({ vllm_commit }: Trace): '28be48fa' | '017e9f444' {
  return vllm_commit.startsWith('017e9f444') ? '017e9f444' : '28be48fa';
}

function isFailure(event: TraceEvent): boolean {
  return event.t === 'grammar' && event.fail === 1;
}

/** All deviations off but those that August has mended, and one of these. */
export function mendedBut(name: keyof Deviations): Pick<SchedulerOptions, 'deviations'> {
  const mended = MENDED['017e9f444'];
  return { deviations: DEVIATIONS.filter((each) => each === name || !mended.includes(each)) };
}

/** The rules that a trace was recorded with, where they do not follow from the version alone. */
function rulesOf(trace: Trace): Rules {
  if (trace.rules !== undefined) return trace.rules as Rules;
  const like = versionOf(trace);
  if (like === '28be48fa') return { like };
  const { watermark = 0, draft_slots, kv_role = 'kv_both', async_scheduling, retention } = trace.config;
  const moves = trace.connector !== null && async_scheduling;
  return {
    like,
    watermark,
    retention: retention ?? 'reachable',
    ...(draft_slots == null ? {} : { draftSlots: draft_slots }),
    fenceFrees: moves && kv_role !== 'kv_producer',
    preemptedOutputs: moves && kv_role !== 'kv_consumer' ? 'discard' : 'await',
  };
}

/**
 * The options of the scheduler that a trace was recorded on.
 * @param kvEvents the subscriber of the prefix cache, if the trace records it
 */
export function optionsOf(
  trace: Trace,
  connector: SubjectConnector | null,
  now: () => number,
  kvEvents?: TraceKvEvents,
): SubjectOptions {
  const { config, n_requests, seed, steps } = trace;
  const { kv_groups, hash_block_size } = config;
  return {
    numBlocks: config.num_gpu_blocks,
    blockSize: config.block_size,
    ...(kv_groups ? { kvGroups: kv_groups.map(groupOf) } : {}),
    ...(hash_block_size ? { hashBlockSize: hash_block_size } : {}),
    ...(config.kv_events === 1 && kvEvents ? { kvEvents } : {}),
    maxNumSeqs: config.max_num_seqs,
    maxNumBatchedTokens: config.max_num_batched_tokens,
    maxModelLen: config.max_model_len,
    enablePrefixCaching: config.enable_prefix_caching,
    policy: config.policy,
    longPrefillTokenThreshold: config.long_prefill_token_threshold,
    reserveFullIsl: config.scheduler_reserve_full_isl,
    enableChunkedPrefill: config.enable_chunked_prefill,
    pipelineDepth: depthOf(config),
    numSpeculativeTokens: config.num_speculative_tokens ?? 0,
    ...(config.spec_method ? { speculativeMethod: config.spec_method } : {}),
    // vLLM has no such limit: enough for every request to hold blocks at once.
    maxLoras: config.max_loras ?? 0,
    numRows: Math.max(config.max_num_seqs, n_requests),
    hashSeed: seed,
    ...(connector ? { connector, loadFailurePolicy: config.kv_load_failure_policy } : {}),
    ...rulesOf(trace),
    deviations: false,
    deadlines: false,
    now,
    // The failure of a grammar is an anomaly, which strict mode throws.
    strict: !steps.some(({ events, mid = [] }) => [...events, ...mid].some(isFailure)),
  };
}
