import { basename } from 'node:path';
import { counted, datum, duration, grouped } from '../../../report/markup/figures.js';
import { type Html, type HtmlValue, html } from '../../../report/markup/html.js';
import { factTable } from '../../../report/markup/tables.js';
import type { PlotLibrary } from '../../../report/page/library.js';
import type { Report } from '../report/report.js';
import { extrapolationInWords, hitsInWords, overloadInWords } from '../report/report-words.js';
import { latencyCells, named, percentileCells, percentileTable } from './page-parts.js';
import { requestCharts, stepChart } from './replay-distributions.js';
import { renderReplay } from './replay-document.js';
import { headline } from './replay-headline.js';
import type { ReplayPageInput } from './replay-page-input.js';
import { timeStrips } from './replay-strips.js';

/** The page of one replay. */
export function replayPage(input: ReplayPageInput, library: PlotLibrary): string {
  const { report } = input;
  const name = report.workload.file === null ? 'a generated workload' : basename(report.workload.file);
  return renderReplay(
    {
      title: html`Replay of <bdi>${name}</bdi>`,
      plainTitle: `Replay of ${name} – blockstep`,
      lead: html`${counted(report.requests.total, 'request')} through the scheduler in <span class="virtual">virtual</span> time: no model ran, and no GPU. How long a step takes is what a cost model says, an assumption. Only the scheduler’s own time was <span class="measured">measured</span>, on the machine named at the end; it is marked so.`,
      source: 'virtual',
      warnings: warnings(report),
      tiles: headline(report),
      axis: 'virtual time',
      strips: timeStrips(input),
      charts: [...requestCharts(input), stepChart(input)],
      figures: html`${facts(report)}${latencies(report)}`,
      madeOf: [['Digest of the final state', html`<code>${report.digest}</code>`]],
    },
    input,
    library,
  );
}

/** The warnings at the top of the page. */
function warnings(report: Report): HtmlValue[] {
  const { finished, aborted, refused, total } = report.requests;
  const overload = overloadInWords(report);
  const found: HtmlValue[] = [];
  if (report.incomplete) {
    found.push(
      html`<strong>Incomplete</strong>: the replay was interrupted. All figures cover the time until then, when ${grouped(finished + aborted + refused)} of ${grouped(total)} requests had ended.`,
    );
  }
  if (overload !== null) found.push(html`<strong>Overload</strong>: ${overload}`);
  const beyond = extrapolationInWords(report);
  if (beyond !== null) found.push(html`<strong>Extrapolated</strong>: ${beyond}`);
  return found;
}

function facts(report: Report): Html {
  const { requests, tokens, throughput, kvCache, virtualSeconds, wallSeconds } = report;
  const list: [string, HtmlValue][] = [
    [
      'Requests',
      html`${datum(requests.total)}: ${datum(requests.finished)} finished, ${datum(requests.aborted)} aborted, ${datum(requests.refused)} refused, ${datum(requests.unfinished)} unfinished`,
    ],
    ['Tokens', html`${datum(tokens.prompt)} of prompts, ${datum(tokens.generated)} generated`],
    [
      'In a virtual second',
      html`${datum(throughput.generatedTokens)} tokens generated, ${datum(throughput.finishedRequests)} requests finished`,
    ],
    ['Prefix cache', hitsInWords(report)],
    [
      'KV cache',
      html`${datum(kvCache.blocks)} blocks of ${String(report.options['blockSize'])} tokens, at most ${datum(kvCache.peakUsage, (share) => grouped(Math.round(share * kvCache.blocks)))} in use`,
    ],
    ['Preemptions', datum(report.preemptions)],
    ['Cached blocks evicted', datum(report.evictions)],
    ['Steps', datum(report.steps)],
    [
      'Time',
      html`${datum(virtualSeconds, (seconds) => duration(1000 * seconds))} virtual, ${datum(wallSeconds, (seconds) => duration(1000 * seconds))} real`,
    ],
  ];
  if (Object.keys(report.anomalies).length > 0) list.push(['Anomalies', named(report.anomalies)]);
  if (requests.refused > 0) list.push(['Refused', named(requests.refusedByCode)]);
  return factTable(list);
}

function latencies({ ttftMs, tpotMs, e2eMs, schedulerStepUs }: Report): Html {
  return percentileTable([
    latencyCells('Time to first token', ttftMs, 'virtual'),
    latencyCells('Time per output token', tpotMs, 'virtual'),
    latencyCells('End-to-end latency', e2eMs, 'virtual'),
    percentileCells('Scheduler step, µs (measured)', schedulerStepUs),
  ]);
}
