import type { Chart, ChartSource } from '../../../report/charts/chart.js';
import type { Host } from '../../../report/host.js';
import { type Html, type HtmlValue, html } from '../../../report/markup/html.js';
import { factTable } from '../../../report/markup/tables.js';
import type { PlotLibrary } from '../../../report/page/library.js';
import { renderPage } from '../../../report/page/page.js';
import type { Tile } from '../../../report/page/tiles.js';
import { commandLine } from '../../terminal/command-line.js';
import type { Report } from '../report/report.js';
import { sourceInWords } from '../report/report-words.js';
import { allOptions, isoDate, madeBy } from './page-parts.js';

/** The content of the page of a replay, in virtual or in real time. */
export interface ReplayDocument {
  title: Html;
  plainTitle: string;
  lead: Html;
  source: ChartSource;
  warnings: HtmlValue[];
  tiles: Tile[];
  /** The quantity on the axis of the charts over time. */
  axis: string;
  strips: Chart[];
  charts: Chart[];
  figures: Html;
  /** Facts about the making of the page, beside those of every page. */
  madeOf?: readonly [string, HtmlValue][];
}

/** The replay of the page. */
interface Replayed {
  report: Pick<Report, 'workload' | 'load' | 'options'>;
  args: readonly string[];
  host: Host;
  date: Date;
}

/** Renders the page of a replay. */
export function renderReplay(
  { axis, strips, charts, figures, madeOf = [], ...head }: ReplayDocument,
  { report, args, host, date }: Replayed,
  library: PlotLibrary,
): string {
  const provenance = factTable([
    ['Command', html`<code>${commandLine(['blockstep', ...args])}</code>`],
    ['Workload', html`<bdi>${sourceInWords(report)}</bdi>`],
    ...madeBy(host, date, library),
    ...madeOf,
  ]);
  return renderPage(
    {
      brand: 'blockstep replay',
      ...head,
      sections: [
        {
          title: 'Over time',
          intro: `All charts share one axis, ${axis} since the first arrival. A line is the mean over a short span of it, the shading reaches from the smallest value in that span to the largest. Point at a chart to read all of them at that time.`,
          strips,
        },
        {
          title: 'Latencies',
          intro:
            'How many took how long. p99 is the time that 99 of 100 did not exceed, p90 and p50 likewise.',
          charts,
        },
        { title: 'All figures', content: figures },
        { title: 'How it was made', content: html`${provenance}\n${allOptions(report.options)}` },
      ],
      footer: html`<p>Made by blockstep ${host.blockstep} on ${isoDate(date)}.</p>`,
      data: { report, host, date: date.toISOString(), args },
    },
    library,
  );
}
