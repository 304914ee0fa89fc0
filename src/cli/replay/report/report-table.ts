// The report of a replay, as tables for a terminal.
import { decimal, duration, figure, grouped, percent } from '../../../report/markup/figures.js';
import type { Report } from './report.js';
import { extrapolationInWords, hitsInWords, overloadInWords, sourceInWords } from './report-words.js';
import { latencyRow, named, optional, renderTables, short, wrapped } from './table-parts.js';

/** The report as tables for people: first the counts, then the times. */
export function renderTable(report: Report): string {
  return `${notes(report)}${renderTables(factRows(report), timeRows(report))}`;
}

/** Notes and warnings about the results. */
function notes(report: Report): string {
  const overload = overloadInWords(report);
  const beyond = extrapolationInWords(report);
  return [
    report.incomplete ? 'INCOMPLETE: interrupted, figures cover the time until then\n' : '',
    overload === null ? '' : `${wrapped(`OVERLOAD: ${overload}`)}\n`,
    beyond === null ? '' : `${wrapped(`EXTRAPOLATED: ${beyond}`)}\n`,
  ].join('');
}

function factRows(report: Report): [string, string][] {
  const { requests, tokens, throughput, kvCache } = report;
  const rate = (value: number | null, what: string): string =>
    `${value === null ? 'no' : figure(value)} ${what}/s`;
  return [
    ['workload', sourceInWords(report)],
    [
      'requests',
      named({ finished: requests.finished, aborted: requests.aborted, refused: requests.refused }),
    ],
    ...optional('finish reasons', requests.byFinishReason),
    ...optional('refused', requests.refusedByCode),
    ...optional('unfinished', { '': requests.unfinished }),
    ['tokens', named({ prompt: tokens.prompt, generated: tokens.generated })],
    [
      'throughput (virtual)',
      `${rate(throughput.generatedTokens, 'tokens')}, ${rate(throughput.finishedRequests, 'requests')}`,
    ],
    ['prefix cache', hitsInWords(report)],
    [
      'KV cache peak',
      `${percent(kvCache.peakUsage)} of ${grouped(kvCache.blocks)} blocks of ${String(report.options['blockSize'])} tokens`,
    ],
    ['preemptions, evictions', `${grouped(report.preemptions)}, ${grouped(report.evictions)}`],
    ...optional('anomalies', report.anomalies),
    ['steps', grouped(report.steps)],
    ['time', `${virtualTime(report.virtualSeconds)} virtual, ${duration(1000 * report.wallSeconds)} real`],
    ['digest', report.digest],
  ];
}

/** A virtual time as a duration; from a minute on in seconds too. */
function virtualTime(seconds: number): string {
  const words = duration(1000 * seconds);
  return words.endsWith(' s') && !words.includes('min') ? words : `${words} (${decimal(seconds)} s)`;
}

function timeRows({ ttftMs, tpotMs, e2eMs, schedulerStepUs }: Report): string[][] {
  const { p50, p90, p99, max } = schedulerStepUs;
  return [
    latencyRow('time to first token', ttftMs, 'virtual'),
    latencyRow('time per output token', tpotMs, 'virtual'),
    latencyRow('end-to-end latency', e2eMs, 'virtual'),
    ['scheduler step, us (real)', ...[p50, p90, p99, max].map((us) => (us === null ? '-' : short(us)))],
  ];
}
