import type { HttpClient } from './http-client.js';

/** Most milliseconds that a server may take for its metrics. They are not worth more. */
const PATIENCE_MS = 5000;

/** What a server counts, read at its `/metrics` at one moment, by vLLM's names. A field is absent where the server has it not. */
export interface ServerCounts {
  preemptions?: number;
  prefixCacheQueries?: number;
  prefixCacheHits?: number;
  /** Share of the blocks that is in use, 0 to 1. */
  kvCacheUsage?: number;
  generatedTokens?: number;
}

/** The metrics, by their names. Those of kind counter end in `_total`, which older versions of Prometheus' clients leave out. */
const METRICS: ReadonlyMap<string, keyof ServerCounts> = new Map([
  ['vllm:num_preemptions', 'preemptions'],
  ['vllm:prefix_cache_queries', 'prefixCacheQueries'],
  ['vllm:prefix_cache_hits', 'prefixCacheHits'],
  ['vllm:kv_cache_usage_perc', 'kvCacheUsage'],
  ['vllm:generation_tokens', 'generatedTokens'],
]);

/** Reads what a server counts; null if it cannot be read, or if it has none of these metrics. */
export async function readServerCounts(
  client: HttpClient,
  signal?: AbortSignal,
): Promise<ServerCounts | null> {
  const answer = await client.get('/metrics', PATIENCE_MS, signal).catch(() => null);
  if (answer === null || answer.status !== 200) return null;
  const counts = countsIn(answer.text);
  return Object.keys(counts).length === 0 ? null : counts;
}

/** The counts in a text of Prometheus' format. Several engines are summed up; of shares the largest is taken. */
export function countsIn(text: string): ServerCounts {
  const counts: ServerCounts = {};
  for (const line of text.split('\n')) {
    const [, name, number] = /^([\w:]+)(?:\{.*\})?\s+(\S+)/.exec(line) ?? [];
    const field = name === undefined ? undefined : METRICS.get(name.replace(/_total$/, ''));
    const value = Number(number);
    if (field === undefined || !Number.isFinite(value)) continue;
    const before = counts[field] ?? 0;
    counts[field] = field === 'kvCacheUsage' ? Math.max(before, value) : before + value;
  }
  return counts;
}

/** What a server counted between two moments, other clients' requests included. A field is absent where it is not known. */
export interface ServerGrowth {
  preemptions?: number;
  /** In tokens. */
  prefixCache?: { queries: number; hits: number };
  /** Share of the blocks that was in use, 0 to 1. */
  kvCacheUsage?: { before: number; after: number };
  generatedTokens?: number;
}

/** What was counted between two readings; null if one of them is missing, or the server was started anew between them. */
export function growthOf(before: ServerCounts | null, after: ServerCounts | null): ServerGrowth | null {
  if (before === null || after === null) return null;
  const grown = (field: keyof ServerCounts): number | undefined => {
    const [from, to] = [before[field], after[field]];
    return from === undefined || to === undefined ? undefined : to - from;
  };
  const [preemptions, queries, hits] = [
    grown('preemptions'),
    grown('prefixCacheQueries'),
    grown('prefixCacheHits'),
  ];
  const generatedTokens = grown('generatedTokens');
  if ([preemptions, queries, hits, generatedTokens].some((value) => value !== undefined && value < 0))
    return null;
  const growth: ServerGrowth = {};
  if (preemptions !== undefined) growth.preemptions = preemptions;
  if (queries !== undefined && hits !== undefined) growth.prefixCache = { queries, hits };
  if (before.kvCacheUsage !== undefined && after.kvCacheUsage !== undefined)
    growth.kvCacheUsage = { before: before.kvCacheUsage, after: after.kvCacheUsage };
  if (generatedTokens !== undefined) growth.generatedTokens = generatedTokens;
  return growth;
}
