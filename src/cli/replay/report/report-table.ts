import CliTable3 from 'cli-table3';
import { decimal, duration, figure, grouped, latencyUnit, percent } from '../../../report/markup/figures.js';
import type { Percentiles } from '../run/histogram.js';
import type { Report } from './report.js';
import { hitsInWords, overloadInWords, sourceInWords } from './report-words.js';

/** The report as tables for people: what happened, then how long it took. */
export function renderTable(report: Report): string {
  const style = { head: [], border: [], compact: true };
  const facts = new CliTable3({ style });
  facts.push(...factRows(report));
  const times = new CliTable3({
    style,
    head: ['', 'p50', 'p90', 'p99', 'max'],
    colAligns: ['left', 'right', 'right', 'right', 'right'],
  });
  times.push(...timeRows(report));
  return `${notes(report)}${facts.toString()}\n${times.toString()}\n`;
}

/** Notes and warnings about the results. */
function notes(report: Report): string {
  const overload = overloadInWords(report);
  return [
    report.incomplete ? 'INCOMPLETE: interrupted, figures cover the time until then\n' : '',
    overload === null ? '' : `${wrapped(`OVERLOAD: ${overload}`)}\n`,
  ].join('');
}

/** A text in lines that fit a narrow terminal. */
function wrapped(text: string): string {
  return text.replace(/(.{1,79})( |$)/g, '$1\n').trimEnd();
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
  const inMs = (name: string, { p50, p90, p99, max }: Percentiles): string[] => {
    const unit = latencyUnit(max);
    const cells = [p50, p90, p99, max].map((ms) => (ms === null ? '-' : short(ms / unit.ms)));
    return [`${name}, ${unit.name} (virtual)`, ...cells];
  };
  const { p50, p90, p99, max } = schedulerStepUs;
  return [
    inMs('time to first token', ttftMs),
    inMs('time per output token', tpotMs),
    inMs('end-to-end latency', e2eMs),
    ['scheduler step, us (real)', ...[p50, p90, p99, max].map((us) => (us === null ? '-' : short(us)))],
  ];
}

/** A value in three significant digits, which is what the histograms keep. */
function short(value: number): string {
  return value >= 100 ? grouped(Math.round(value)) : value.toPrecision(3);
}

/** One row with the counts above 0; no row if all are 0. */
function optional(name: string, counts: Record<string, number>): [string, string][] {
  const found = Object.entries(counts).filter(([, count]) => count > 0);
  return found.length === 0 ? [] : [[name, named(Object.fromEntries(found))]];
}

function named(counts: Record<string, number>): string {
  return Object.entries(counts)
    .map(([name, count]) => `${name} ${grouped(count)}`.trim())
    .join(', ');
}
