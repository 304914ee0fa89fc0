import { basename } from 'node:path';
import { counted, datum, duration, grouped } from '../../../../report/markup/figures.js';
import { type Html, type HtmlValue, html } from '../../../../report/markup/html.js';
import { factTable } from '../../../../report/markup/tables.js';
import type { PlotLibrary } from '../../../../report/page/library.js';
import type { Tile } from '../../../../report/page/tiles.js';
import {
  hitsTile,
  latencyCells,
  latencyTile,
  named,
  percentileCells,
  percentileTable,
  throughputTile,
} from '../../page/page-parts.js';
import { renderReplay } from '../../page/replay-document.js';
import type { HttpReport } from '../report/http-report.js';
import {
  cachedInWords,
  countingInWords,
  metricsInWords,
  unknownInWords,
  warningsInWords,
} from '../report/http-words.js';
import { distributions, timeStrips } from './http-charts.js';
import type { HttpPageInput } from './http-page-input.js';

/** The page of one replay over HTTP. */
export function httpPage(input: HttpPageInput, library: PlotLibrary): string {
  const { report } = input;
  const { url, model } = report.server;
  const name = report.workload.file === null ? 'a generated workload' : basename(report.workload.file);
  return renderReplay(
    {
      title: html`Replay of <bdi>${name}</bdi> at <bdi>${url}</bdi>`,
      plainTitle: `Replay of ${name} at ${url} – blockstep`,
      lead: html`${counted(report.requests.total, 'request')} over HTTP to the model <bdi>${model}</bdi> at <bdi>${url}</bdi>. All times are real: they were <span class="measured">measured</span> by the clock of the client, on the machine named at the end, and have the network in them.`,
      source: 'measured',
      warnings: warningsInWords(report).map(
        ([what, text]) => html`<strong>${what}</strong>: <bdi>${text}</bdi>`,
      ),
      tiles: headline(report),
      axis: 'time',
      strips: timeStrips(input),
      charts: distributions(input),
      figures: html`${facts(report)}${latencies(report)}`,
    },
    input,
    library,
  );
}

/** The figures that most readers look for. */
function headline(report: HttpReport): Tile[] {
  const { throughput, requests, wallSeconds, prefixCache, client } = report;
  const source = 'measured';
  return [
    throughputTile(throughput, source),
    latencyTile('Time to first token', report.ttftMs, source),
    latencyTile('Inter-token latency', report.itlMs, source),
    latencyTile('End-to-end latency', report.e2eMs, source),
    {
      label: 'Finished',
      value: datum(requests.finished),
      unit: `of ${grouped(requests.total)}`,
      detail: `${grouped(requests.refused)} refused, ${grouped(requests.failed)} failed, ${grouped(requests.aborted)} aborted`,
      source,
    },
    {
      label: 'Duration',
      value: datum(wallSeconds, (seconds) => duration(1000 * seconds)),
      unit: '',
      detail: 'of real time',
      source,
    },
    hitsTile(prefixCache ?? 'the server does not say', source),
    latencyTile('Client: sent late', client.lateMs, source),
  ];
}

function facts(report: HttpReport): Html {
  const { server, requests, tokens, throughput, wallSeconds, client } = report;
  const cached = cachedInWords(report);
  const { p50, p99, max } = client.eventLoopDelayMs;
  const list: [string, HtmlValue][] = [
    ['Server', html`<bdi>${server.url}</bdi>, model <bdi>${server.model}</bdi>`],
    [
      'Requests',
      html`${datum(requests.total)}: ${datum(requests.finished)} finished, ${datum(requests.aborted)} aborted, ${datum(requests.refused)} refused, ${datum(requests.failed)} failed, ${datum(requests.unfinished)} unfinished`,
    ],
    [
      'Tokens',
      html`${datum(tokens.prompt)} of prompts, ${datum(tokens.generated)} generated (${countingInWords(report)})`,
    ],
    [
      'In a second',
      html`${datum(throughput.generatedTokens)} tokens generated, ${datum(throughput.finishedRequests)} requests finished`,
    ],
    ...(cached === null ? [] : [['Prefix cache, by usage', cached] as [string, string]]),
    ...metricsInWords(report).map(([name, value]): [string, string] => [`By /metrics: ${name}`, value]),
    ['Not known of a server', unknownInWords(report)],
    ['Time', html`${datum(wallSeconds, (seconds) => duration(1000 * seconds))} real`],
    ['Event loop of the client late', html`p50 ${datum(p50)} ms, p99 ${datum(p99)} ms, max ${datum(max)} ms`],
  ];
  if (requests.failed > 0) list.push(['Failed', named(requests.failedByKind)]);
  return factTable(list);
}

function latencies({ ttftMs, itlMs, tpotMs, e2eMs, client }: HttpReport): Html {
  const source = 'measured';
  return percentileTable([
    latencyCells('Time to first token', ttftMs, source),
    latencyCells('Inter-token latency', itlMs, source),
    latencyCells('Time per output token', tpotMs, source),
    latencyCells('End-to-end latency', e2eMs, source),
    percentileCells('Client: sent late, ms (measured)', client.lateMs),
    ...(client.heldMs === undefined
      ? []
      : [percentileCells('Client: held back for a place, ms (measured)', client.heldMs)]),
  ]);
}
