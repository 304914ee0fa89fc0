import CliTable3 from 'cli-table3';
import type { Percentiles } from './histogram.js';
import type { Report } from './report.js';

/** The report as a table for people. */
export function renderTable(report: Report): string {
  const table = new CliTable3({ style: { head: [], border: [], compact: true } });
  table.push(...rows(report));
  const title = report.incomplete ? 'INCOMPLETE: interrupted, figures cover the time until then\n' : '';
  return `${title}${table.toString()}\n`;
}

function rows(report: Report): [string, string][] {
  const { requests, tokens, prefixCache } = report;
  const hitPercent = (100 * prefixCache.hitRate).toFixed(2);
  return [
    ['workload', workload(report)],
    [
      'requests',
      named({ finished: requests.finished, aborted: requests.aborted, refused: requests.refused }),
    ],
    ['finish reasons', named(requests.byFinishReason)],
    ...(requests.refused > 0 ? [row('refused', named(requests.refusedByCode))] : []),
    ...(requests.unfinished > 0 ? [row('unfinished', grouped(requests.unfinished))] : []),
    ['tokens', named({ prompt: tokens.prompt, generated: tokens.generated })],
    [
      'prefix cache',
      `${grouped(prefixCache.hits)} of ${grouped(prefixCache.queries)} tokens hit (${hitPercent} %)`,
    ],
    ['preemptions, evictions', `${grouped(report.preemptions)}, ${grouped(report.evictions)}`],
    ...(Object.keys(report.anomalies).length > 0 ? [row('anomalies', named(report.anomalies))] : []),
    ['time to first token', `${percentiles(report.ttftMs, 'ms')} (virtual)`],
    ['time per output token', `${percentiles(report.tpotMs, 'ms')} (virtual)`],
    ['scheduler step', `${percentiles(report.schedulerStepUs, 'us')} (real)`],
    ['steps', grouped(report.steps)],
    ['time', `${report.virtualSeconds.toFixed(1)} s virtual, ${report.wallSeconds.toFixed(1)} s real`],
    ['digest', report.digest],
  ];
}

function row(name: string, value: string): [string, string] {
  return [name, value];
}

function workload({ workload: source }: Report): string {
  const name = source.file === null ? 'generated' : `${source.file} (${source.format})`;
  const notes = [`${grouped(source.requests)} requests`];
  if (source.skippedLines > 0) notes.push(`${grouped(source.skippedLines)} malformed lines skipped`);
  if (source.zeroOutputs > 0) notes.push(`${grouped(source.zeroOutputs)} of output length 0 replayed with 1`);
  return `${name}: ${notes.join(', ')}`;
}

function named(counts: Record<string, number>): string {
  return Object.entries(counts)
    .map(([name, count]) => `${name} ${grouped(count)}`)
    .join(', ');
}

function percentiles({ p50, p90, p99, max }: Percentiles, unit: string): string {
  if (p50 === null || p90 === null || p99 === null || max === null) return 'none';
  return `p50 ${short(p50)}, p90 ${short(p90)}, p99 ${short(p99)}, max ${short(max)} ${unit}`;
}

/** Three significant digits are what the histograms keep. */
function short(value: number): string {
  return value >= 100 ? grouped(Math.round(value)) : value.toPrecision(3);
}

function grouped(count: number): string {
  return count.toLocaleString('en-US');
}
