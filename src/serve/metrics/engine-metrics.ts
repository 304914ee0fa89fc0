import type { Engine } from '../../engine/engine.js';
import type { EngineStats } from '../../engine/inspect/engine-stats.js';
import type { GroupStats } from '../../scheduler/inspect/group-stats.js';
import type { Exposed, Sample } from './exposed.js';

/**
 * Exposes the engine's own counts: under vLLM's names where vLLM has them, under blockstep's names
 * otherwise.
 */
export function exposeEngine(exposed: Exposed, engine: Engine): void {
  const read = <T>(pick: (stats: EngineStats) => T): (() => T) => {
    return () => pick(statsOf(engine));
  };
  exposeState(exposed, engine, read);
  exposeCounts(exposed, read);
  exposeOwn(exposed, read);
}

type Read = <T>(pick: (stats: EngineStats) => T) => () => T;

/** A scrape reads many values, and all of them must be of one moment. */
let last: { engine: Engine; stats: EngineStats } | null = null;

function statsOf(engine: Engine): EngineStats {
  if (last?.engine !== engine) {
    last = { engine, stats: engine.stats() };
    queueMicrotask(() => {
      last = null;
    });
  }
  return last.stats;
}

function exposeState(exposed: Exposed, engine: Engine, read: Read): void {
  const { blockSize, numBlocks, enablePrefixCaching, maxModelLen } = engine.scheduler.config;
  exposed.gauge(
    'vllm:num_requests_running',
    'Requests that run.',
    read(({ scheduler }) => scheduler.numRunning),
  );
  exposed.gauge(
    'vllm:num_requests_waiting',
    'Requests that wait.',
    read(({ scheduler }) => scheduler.numWaiting + scheduler.numSkipped),
  );
  exposed.gauge(
    'vllm:num_requests_waiting_by_reason',
    'Requests that wait, by what for: room, or something outside of the scheduler.',
    read(({ scheduler }): Sample[] => [
      [{ reason: 'capacity' }, scheduler.numWaiting],
      [{ reason: 'deferred' }, scheduler.numSkipped],
    ]),
  );
  exposed.gauge(
    'vllm:kv_cache_usage_perc',
    'Share of the KV cache that is in use; 1 is all of it.',
    read(({ scheduler }) => scheduler.kvCacheUsage),
  );
  exposed.gauge('vllm:engine_sleep_state', 'Whether the engine is awake.', () => [
    [{ sleep_state: 'awake' }, 1],
    [{ sleep_state: 'weights_offloaded' }, 0],
    [{ sleep_state: 'discard_all' }, 0],
  ]);
  const config = {
    block_size: `${blockSize}`,
    num_gpu_blocks: `${numBlocks}`,
    enable_prefix_caching: enablePrefixCaching ? 'True' : 'False',
    max_model_len: `${maxModelLen}`,
  };
  exposed.gauge('vllm:cache_config_info', 'The configuration of the KV cache.', () => [[config, 1]]);
}

function exposeCounts(exposed: Exposed, read: Read): void {
  const count = (name: string, help: string, pick: (stats: EngineStats['scheduler']) => number): void => {
    exposed.counter(
      `vllm:${name}`,
      help,
      read(({ scheduler }) => pick(scheduler)),
    );
  };
  count(
    'prefix_cache_queries',
    'Tokens that were looked for in the prefix cache.',
    (s) => s.prefixCacheQueries,
  );
  count('prefix_cache_hits', 'Tokens that were found there.', (s) => s.prefixCacheHits);
  count('external_prefix_cache_queries', 'Tokens that a connector was asked for.', (s) => s.externalQueries);
  count('external_prefix_cache_hits', 'Tokens that a connector has brought.', (s) => s.externalHits);
  count('num_preemptions', 'Preemptions.', (s) => s.numPreemptions);
  count('prompt_tokens', 'Tokens of prompts.', (s) => s.promptTokens);
  count(
    'prompt_tokens_cached',
    'Tokens of prompts that were found in a cache.',
    (s) => s.promptTokensCached + s.promptTokensLoaded,
  );
  count('generation_tokens', 'Generated tokens.', (s) => s.generationTokens);
  count('spec_decode_num_drafts', 'Rounds of drafting.', (s) => s.specDrafts);
  count('spec_decode_num_draft_tokens', 'Draft tokens.', (s) => s.specDraftTokens);
  count('spec_decode_num_accepted_tokens', 'Draft tokens that were accepted.', (s) => s.specAcceptedTokens);
  exposed.counter(
    'vllm:prompt_tokens_by_source',
    'Tokens of prompts, by where their KV came from.',
    read(({ scheduler: { promptTokens, promptTokensCached, promptTokensLoaded } }): Sample[] => [
      [{ source: 'local_compute' }, promptTokens - promptTokensCached - promptTokensLoaded],
      [{ source: 'local_cache_hit' }, promptTokensCached],
      [{ source: 'external_kv_transfer' }, promptTokensLoaded],
    ]),
  );
  exposed.counter(
    'vllm:request_success',
    'Requests that have ended, by how.',
    read(({ scheduler }) =>
      Object.entries(scheduler.finished).map(
        ([reason, value]): Sample => [{ finished_reason: reason }, value],
      ),
    ),
  );
}

function exposeOwn(exposed: Exposed, read: Read): void {
  exposed.counter(
    'blockstep:refused_matches',
    'Matches of a connector that the scheduler refused, because the model keeps states where steps end.',
    read(({ scheduler }) => scheduler.refusedMatches),
  );
  exposed.counter(
    'blockstep:anomalies',
    'Events that a correct peer would not send, which were skipped.',
    read(({ scheduler }) =>
      Object.entries(scheduler.anomalies).map(([reason, value]): Sample => [{ reason }, value ?? 0]),
    ),
  );
  exposed.gauge(
    'blockstep:outstanding_transfers',
    'Uses of blocks that have not ended, by kind.',
    read(({ scheduler }) =>
      Object.entries(scheduler.outstanding).map(([kind, { count }]): Sample => [{ kind }, count]),
    ),
  );
  exposed.gauge(
    'blockstep:quarantined_blocks',
    'Blocks that a transfer may still write, although nobody waits for it.',
    read(({ scheduler }) => scheduler.quarantinedBlocks),
  );
  exposeGroups(exposed, read);
  exposed.counter(
    'blockstep:steps',
    'Steps that the executor has answered.',
    read(({ steps }) => steps),
  );
  exposed.gauge(
    'blockstep:step_latency_seconds',
    'From the submission of a step to its answer, over all steps.',
    read(({ stepLatencyMs: { p50, p99, max } }): Sample[] => [
      [{ quantile: '0.5' }, (p50 ?? 0) / 1000],
      [{ quantile: '0.99' }, (p99 ?? 0) / 1000],
      [{ quantile: '1' }, (max ?? 0) / 1000],
    ]),
  );
}

/** Blocks by KV cache group; without groups there is one, `0`. */
function exposeGroups(exposed: Exposed, read: Read): void {
  const byGroup = (pick: (group: GroupStats) => number): (() => Sample[]) =>
    read(({ scheduler: { groups } }) =>
      groups.map((group, g): Sample => [{ group: `${g}`, kind: group.name }, pick(group)]),
    );
  exposed.gauge(
    'blockstep:kv_group_used_blocks',
    'Blocks in use by KV cache group; of a group of states each is one.',
    byGroup(({ usedBlocks }) => usedBlocks),
  );
  exposed.gauge(
    'blockstep:kv_group_cached_blocks',
    'Blocks that carry a hash by KV cache group, free ones included.',
    byGroup(({ cachedBlocks }) => cachedBlocks),
  );
  exposed.gauge(
    'blockstep:kv_group_null_places',
    'Places of requests that hold nothing, because no later token reads them.',
    byGroup(({ nullPlaces }) => nullPlaces),
  );
  exposed.counter(
    'blockstep:kv_group_dropped_blocks',
    'Times that a request let a block go because no later token reads it.',
    byGroup(({ droppedBlocks }) => droppedBlocks),
  );
}
