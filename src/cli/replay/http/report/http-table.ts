// The report of a replay over HTTP, as tables for a terminal.
import type { EventLoopDelays } from '../../../../base/event-loop-delay.js';
import { duration, figure } from '../../../../report/markup/figures.js';
import { sourceInWords } from '../../report/report-words.js';
import {
  latencyRow,
  named,
  optional,
  renderTables,
  short,
  wrapped,
  wrappedAt,
} from '../../report/table-parts.js';
import { oneLine } from '../client/call-failure.js';
import type { HttpReport } from './http-report.js';
import {
  cachedInWords,
  countingInWords,
  metricsInWords,
  unknownInWords,
  warningsInWords,
} from './http-words.js';

/** Most characters of a fact, so that the table fits a narrow terminal. */
const FACT_WIDTH = 44;

/** The report of a replay over HTTP as tables for people: first the counts, then the times. */
export function renderHttpTable(report: HttpReport): string {
  const notes = warningsInWords(report).map(
    ([name, text]) => `${wrapped(`${name.toUpperCase()}: ${text}`)}\n`,
  );
  const facts = factRows(report).map(([name, text]) => [name, wrappedAt(text, FACT_WIDTH)]);
  return `${notes.join('')}${renderTables(facts, timeRows(report))}`;
}

function factRows(report: HttpReport): [string, string][] {
  const { server, requests, tokens, throughput } = report;
  const rate = (value: number | null, what: string): string =>
    `${value === null ? 'no' : figure(value)} ${what}/s`;
  const cached = cachedInWords(report);
  return [
    ['server', server.url],
    ['model', oneLine(server.model)],
    ['workload', sourceInWords(report)],
    [
      'requests',
      named({
        finished: requests.finished,
        aborted: requests.aborted,
        refused: requests.refused,
        failed: requests.failed,
      }),
    ],
    ...optional('finish reasons', requests.byFinishReason),
    ...optional('failed', requests.failedByKind),
    ...optional('unfinished', { '': requests.unfinished }),
    ['tokens', named({ prompt: tokens.prompt, generated: tokens.generated })],
    ['tokens counted', countingInWords(report)],
    [
      'throughput (real)',
      `${rate(throughput.generatedTokens, 'tokens')}, ${rate(throughput.finishedRequests, 'requests')}`,
    ],
    ...(cached === null ? [] : [['prefix cache', cached] as [string, string]]),
    ...metricsInWords(report).map(([name, value]): [string, string] => [`by /metrics: ${name}`, value]),
    ['not known of a server', unknownInWords(report)],
    ['time', `${duration(1000 * report.wallSeconds)} real`],
  ];
}

function timeRows({ ttftMs, itlMs, tpotMs, e2eMs, client }: HttpReport): string[][] {
  return [
    latencyRow('time to first token', ttftMs, 'real'),
    latencyRow('inter-token latency', itlMs, 'real'),
    latencyRow('time per output token', tpotMs, 'real'),
    latencyRow('end-to-end latency', e2eMs, 'real'),
    latencyRow('client: sent late', client.lateMs, 'real'),
    ...(client.heldMs === undefined ? [] : [latencyRow('client: held back', client.heldMs, 'real')]),
    eventLoopRow(client.eventLoopDelayMs),
  ];
}

function eventLoopRow({ p50, p99, max }: EventLoopDelays): string[] {
  const [low, high, most] = [p50, p99, max].map((ms) => (ms === null ? '-' : short(ms)));
  return ['client: event loop late, ms (real)', low, '', high, most];
}
