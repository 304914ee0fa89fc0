// The number of blocks for the requests of a configuration.
import type { TraceConfig, TraceKvGroup } from '../trace.js';

/** The groups of a trace; a trace that is older than groups has one group of full attention. */
export function groupsOf({ kv_groups, block_size }: TraceConfig): readonly TraceKvGroup[] {
  return kv_groups ?? [{ type: 'full', block_size }];
}

/** Blocks that nobody gets: the null block, and those of sinks. */
export function keptBlocks(config: TraceConfig): number {
  const sinks = groupsOf(config).map((group) =>
    group.type === 'sink' ? group.sink_len / group.block_size : 0,
  );
  return sinks.reduce((sum, count) => sum + count, 1);
}

/** At most so many blocks does a request of that many tokens hold, or have to find free, at any time. */
export function blocksFor(config: TraceConfig, tokens: number): number {
  const { max_num_batched_tokens: budget, num_speculative_tokens: drafts = 0 } = config;
  const needs = groupsOf(config).map((group) => {
    const blocks = (count: number) => Math.ceil((Math.min(count, tokens) + 2 * drafts) / group.block_size);
    switch (group.type) {
      case 'sliding':
        return Math.min(blocks(tokens), blocks(group.sliding_window + budget) + 2);
      case 'chunked':
        return Math.min(blocks(tokens), blocks(group.chunk + budget) + 2);
      case 'mamba':
        return group.mode === 'align'
          ? 3 + 2 * group.num_speculative_blocks
          : blocks(tokens) + 1 + group.num_speculative_blocks;
      default:
        return blocks(tokens);
    }
  });
  return needs.reduce((sum, need) => sum + need, 0);
}

/** Most tokens of a request for which the pool has room when nothing else is there. */
export function mostTokens(config: TraceConfig): number {
  const room = config.num_gpu_blocks - keptBlocks(config);
  let tokens = config.max_model_len;
  while (tokens > 1 && blocksFor(config, tokens) > room) tokens--;
  return tokens;
}
