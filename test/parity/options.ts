import type { TraceKvEvents } from './kv-events.js';
import { depthOf } from './pipeline.js';
import type { SubjectConnector, SubjectKvGroup, SubjectOptions } from './subject.js';
import type { Trace, TraceKvGroup } from './trace.js';

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

/**
 * The options of the scheduler that a trace was recorded on.
 * @param kvEvents who is told of the prefix cache, if the trace records it
 */
export function optionsOf(
  { config, n_requests, seed }: Trace,
  connector: SubjectConnector | null,
  now: () => number,
  kvEvents?: TraceKvEvents,
): SubjectOptions {
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
    deviations: false,
    deadlines: false,
    now,
    strict: true,
  };
}
