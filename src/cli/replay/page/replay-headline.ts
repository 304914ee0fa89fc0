// The figures at the top of the page of a replay.
import { counted, datum, decimal, duration, grouped } from '../../../report/markup/figures.js';
import { html } from '../../../report/markup/html.js';
import type { Tile } from '../../../report/page/tiles.js';
import type { Report } from '../report/report.js';
import { whyNoHits } from '../report/report-words.js';
import { hitsTile, latencyTile, throughputTile } from './page-parts.js';

/** The most wanted figures of a replay's page, as tiles. */
export function headline(report: Report): Tile[] {
  const { prefixCache } = report;
  const noHits = whyNoHits(report) ?? (prefixCache.queries === 0 ? 'no prompt was looked up' : null);
  const { throughput, kvCache, preemptions, virtualSeconds, requests, steps } = report;
  const source = 'virtual';
  return [
    throughputTile(throughput, source),
    latencyTile('Time to first token', report.ttftMs, source),
    latencyTile('End-to-end latency', report.e2eMs, source),
    {
      label: 'Duration',
      value: datum(virtualSeconds, (seconds) => duration(1000 * seconds)),
      unit: '',
      detail: `of virtual time, in ${counted(steps, 'step')}`,
      source,
    },
    hitsTile(noHits ?? prefixCache, source),
    {
      label: 'KV cache, peak',
      value: datum(kvCache.peakUsage, (share) => decimal(100 * share)),
      unit: '%',
      detail: html`of ${grouped(kvCache.blocks)} blocks in use at once`,
      source,
    },
    {
      label: 'Preemptions',
      value: datum(preemptions),
      unit: '',
      detail: `among ${counted(requests.total, 'request')}`,
      source,
    },
    step(report),
  ];
}

function step({ schedulerStepUs: { p50, p99 } }: Report): Tile {
  return {
    label: 'Scheduler step',
    value: p50 === null ? null : datum(p50),
    unit: 'µs p50',
    detail: p99 === null ? 'no step was computed' : html`<strong>${datum(p99)}</strong> µs p99`,
    source: 'measured',
  };
}
