import type { HttpClient } from './http-client.js';

/** Most milliseconds that a server may take for its metrics, which are not worth a longer wait. */
const PATIENCE_MS = 5000;

/**
 * The counts at a server's `/metrics` at one moment, by vLLM's names. A field is absent if the
 * server lacks the metric.
 */
export interface ServerCounts {
  preemptions?: number;
  prefixCacheQueries?: number;
  prefixCacheHits?: number;
  /** Fraction of the blocks in use, 0 to 1. */
  kvCacheUsage?: number;
  generatedTokens?: number;
}

/**
 * The metrics, by their names. Counters end in `_total`, which older versions of Prometheus'
 * clients leave out.
 */
const METRICS: ReadonlyMap<string, keyof ServerCounts> = new Map([
  ['vllm:num_preemptions', 'preemptions'],
  ['vllm:prefix_cache_queries', 'prefixCacheQueries'],
  ['vllm:prefix_cache_hits', 'prefixCacheHits'],
  ['vllm:kv_cache_usage_perc', 'kvCacheUsage'],
  ['vllm:generation_tokens', 'generatedTokens'],
]);

/**
 * Reads the counts of a server; null if they cannot be read, or if the server has none of these
 * metrics.
 */
export async function readServerCounts(
  client: HttpClient,
  signal?: AbortSignal,
): Promise<ServerCounts | null> {
  const answer = await client.get('/metrics', PATIENCE_MS, signal).catch(() => null);
  if (answer === null || answer.status !== 200) return null;
  const counts = countsIn(answer.text);
  return Object.keys(counts).length === 0 ? null : counts;
}

/**
 * The counts in a text of Prometheus' format. The values of several engines are added; of fractions
 * the largest is taken.
 */
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

/**
 * The growth of a server's counts between two moments, including the requests of other clients.
 * Unknown fields are absent.
 */
export interface ServerGrowth {
  preemptions?: number;
  /** In tokens. */
  prefixCache?: { queries: number; hits: number };
  /** Fraction of the blocks in use, 0 to 1. */
  kvCacheUsage?: { before: number; after: number };
  generatedTokens?: number;
}

/**
 * The growth between two readings; null if a reading is missing, or the server was restarted
 * between them.
 */
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
