// Sentences that the table and the page of a replay over HTTP share.
import { duration, grouped, percent } from '../../../../report/markup/figures.js';
import { overloadInWords } from '../../report/report-words.js';
import type { HttpReport } from './http-report.js';

/**
 * The client counts as late if one request in a hundred is later than this, in milliseconds, ...
 */
const LATE_MS = 10;
/** ... and later than this fraction of the median time to first token. */
const LATE_SHARE = 0.1;

/** Warnings at the top of the table and the page, about doubtful figures. The name comes first. */
export function warningsInWords(report: HttpReport): [name: string, text: string][] {
  const { requests, failure, incomplete } = report;
  const ended = requests.total - requests.unfinished;
  const found: [string, string][] = [];
  if (incomplete) {
    const why = failure === undefined ? 'interrupted' : failure;
    found.push([
      'Incomplete',
      `${why}. All figures cover the time until then, when ${grouped(ended)} of ${grouped(requests.total)} requests had ended.`,
    ]);
  }
  if (requests.failed > 0) {
    const kinds = Object.entries(requests.failedByKind).map(([kind, count]) => `${kind} ${grouped(count)}`);
    found.push([
      'Failed',
      `${grouped(requests.failed)} of ${grouped(requests.total)} requests (${kinds.join(', ')}). Of the first it was said: ${requests.firstFailure}`,
    ]);
  }
  const late = latenessInWords(report);
  if (late !== null) found.push(['Late', late]);
  const overload = overloadInWords(report);
  if (overload !== null) found.push(['Overload', overload]);
  return found;
}

/**
 * A sentence if the client was so slow that its figures blame the server; null: it was fast enough.
 */
function latenessInWords({ client, ttftMs }: HttpReport): string | null {
  const late = Math.max(client.lateMs.p99 ?? 0, client.eventLoopDelayMs.p99 ?? 0);
  if (late <= Math.max(LATE_MS, LATE_SHARE * (ttftMs.p50 ?? 0))) return null;
  return `the client itself was up to ${duration(late)} late (99 of 100 times), so that its figures blame the server for what is its own. Give it a machine of its own, or fewer requests.`;
}

/** How many prompt tokens the server had cached, by its usage; null: the server does not say. */
export function cachedInWords({ prefixCache }: HttpReport): string | null {
  if (prefixCache === undefined) return null;
  const { hitRate, hits, queries } = prefixCache;
  return `${percent(hitRate)} hit: ${grouped(hits)} of ${grouped(queries)} prompt tokens`;
}

/** How generated tokens were counted. */
export function countingInWords({ tokens }: HttpReport): string {
  const { generated, generatedAsChunks } = tokens;
  if (generatedAsChunks === 0) return 'counted by the server';
  if (generatedAsChunks === generated) return 'chunks counted as tokens: the server did not say';
  return `${grouped(generatedAsChunks)} of them chunks that were counted as tokens, of requests without usage`;
}

/** The figures of the replay in virtual time that a client cannot know of a server. */
export function unknownInWords({ server, prefixCache }: HttpReport): string {
  const { metrics = {} } = server;
  const unknown = ['steps', 'batch sizes', 'evictions'];
  if (metrics.preemptions === undefined) unknown.push('preemptions');
  if (metrics.kvCacheUsage === undefined) unknown.push('KV cache use');
  if (metrics.prefixCache === undefined && prefixCache === undefined) unknown.push('prefix cache hits');
  return unknown.join(', ');
}

/** The server's own counts, by vLLM's names; each with its value. */
export function metricsInWords({ server: { metrics }, tokens }: HttpReport): [name: string, value: string][] {
  if (metrics === undefined) return [];
  const { preemptions, prefixCache, kvCacheUsage, generatedTokens } = metrics;
  const found: [string, string][] = [];
  if (preemptions !== undefined) found.push(['preemptions', grouped(preemptions)]);
  if (prefixCache !== undefined) {
    const { queries, hits } = prefixCache;
    const rate = queries === 0 ? 'no token was looked up' : `${percent(hits / queries)} hit: `;
    found.push([
      'prefix cache',
      queries === 0 ? rate : `${rate}${grouped(hits)} of ${grouped(queries)} tokens`,
    ]);
  }
  if (kvCacheUsage !== undefined)
    found.push([
      'KV cache in use',
      `${percent(kvCacheUsage.before)} before, ${percent(kvCacheUsage.after)} after`,
    ]);
  if (generatedTokens !== undefined) {
    // A client that counts chunks does not know its number of tokens.
    const others = tokens.generatedAsChunks === 0 ? generatedTokens - tokens.generated : 0;
    const note = others > 0 ? `, ${grouped(others)} of them for others` : '';
    found.push(['tokens', `${grouped(generatedTokens)} generated${note}`]);
  }
  return found;
}
