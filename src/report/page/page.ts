// A whole page of a report: head, tiles, sections, data, scripts.
import { readFileSync } from 'node:fs';
import type { Chart, ChartSource } from '../charts/chart.js';
import { type Html, type HtmlValue, html, trusted } from '../markup/html.js';
import type { PlotLibrary } from './library.js';
import { embedJson, embedScript } from './script.js';
import { STYLE } from './style.js';
import { renderTiles, type Tile } from './tiles.js';

/**
 * A part of a page. It has charts in two columns, charts over the same time as strips below each
 * other, or other content in one panel.
 */
export type Section =
  | { title: string; intro?: HtmlValue; charts: readonly Chart[] }
  | { title: string; intro?: HtmlValue; strips: readonly Chart[] }
  | { title: string; intro?: HtmlValue; content: Html };

export interface PageInput {
  /** The program that made the page, in a few words. */
  brand: string;
  title: HtmlValue;
  /** The title without markup. */
  plainTitle: string;
  /** The content of the page, and how to read it. */
  lead: HtmlValue;
  /** The source of most figures. Charts and figures from another source are tagged. */
  source: ChartSource;
  /** Warnings, shown at the top. */
  warnings: readonly HtmlValue[];
  /** The most wanted figures. */
  tiles: readonly Tile[];
  sections: readonly Section[];
  footer: HtmlValue;
  /** All data of the page, for programs: a data block with the id `report`. */
  data: unknown;
}

const CHART_HEIGHT = 280;
const STRIP_HEIGHT = 158;

/**
 * Renders a whole page as one file. The page fetches nothing. Its Content-Security-Policy forbids
 * that, and every script but its own two. The page can be opened from a disk as well as from a
 * server.
 */
export function renderPage(input: PageInput, library: PlotLibrary): string {
  const charts = input.sections.flatMap(chartsOf);
  const plots = embedScript(library.source);
  const script = embedScript(readScript(), 'type="module"');
  const policy = [
    "default-src 'none'",
    `script-src ${plots.hash} ${script.hash}`,
    "style-src 'unsafe-inline'",
    "base-uri 'none'",
    "form-action 'none'",
  ];
  const forScript = charts.flatMap(({ id, drawing }) =>
    typeof drawing === 'string' ? [] : [{ id, ...drawing }],
  );
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy.join('; ')}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${input.plainTitle}</title>
<style>${trusted(STYLE)}</style>
</head>
<body>
<header>
<p class="brand">${input.brand}</p>
<h1>${input.title}</h1>
<p class="lead">${input.lead}</p>
${input.warnings.map((warning) => html`<p class="warning" role="note">${warning}</p>\n`)}
<noscript><p class="warning">The charts need JavaScript; every figure stands in the tables too.</p></noscript>
${renderTiles(input.tiles, input.source)}
</header>
<main>
${input.sections.map((section) => renderSection(section, input.source))}
</main>
<footer>
${input.footer}
<p>Charts by ${library.name} ${library.version}, ${library.license}, which is part of this page.</p>
</footer>
${embedJson('report', input.data)}
${embedJson('charts', forScript)}
<!--
${library.notice.replaceAll('--', '- -')}
-->
${plots.element}
${script.element}
</body>
</html>
`.source;
}

function chartsOf(section: Section): readonly Chart[] {
  if ('charts' in section) return section.charts;
  return 'strips' in section ? section.strips : [];
}

function renderSection(section: Section, usual: ChartSource): Html {
  const intro = section.intro !== undefined && html`<p class="intro">${section.intro}</p>`;
  return html`<section>
<h2>${section.title}</h2>
${intro}
${renderContent(section, usual)}
</section>
`;
}

function renderContent(section: Section, usual: ChartSource): Html {
  if ('content' in section) return html`<div class="panel">${section.content}</div>`;
  if ('charts' in section)
    return html`<div class="columns">${section.charts.map((chart) => renderChart(chart, usual))}</div>`;
  return html`<div class="panel strips">${section.strips.map((chart) => renderStrip(chart, usual))}</div>`;
}

function renderChart(chart: Chart, usual: ChartSource): Html {
  return html`<figure class="${chart.wide ? 'panel wide' : 'panel'}">
${renderHead(chart, usual)}
${chart.note !== undefined && html`<figcaption>${chart.note}</figcaption>`}
${renderDrawing(chart, CHART_HEIGHT)}
${chart.table ?? null}
</figure>
`;
}

/**
 * A strip: the words are beside the drawing, so that all drawings of a section are exactly one
 * below the other.
 */
function renderStrip(chart: Chart, usual: ChartSource): Html {
  return html`<figure class="strip">
<div>
${renderHead(chart, usual)}
<figcaption>${chart.note ?? ''}</figcaption>
${typeof chart.drawing === 'string' ? null : (chart.table ?? null)}
</div>
${renderDrawing(chart, STRIP_HEIGHT)}
</figure>
`;
}

function renderHead({ id, title, unit, source }: Chart, usual: ChartSource): Html {
  const tag = source !== usual && html`<span class="tag ${source}">${source}</span>`;
  return html`<header><h3 id="${id}-title">${title}</h3>${unit !== undefined && html`<span class="unit">${unit}</span>`}${tag}</header>`;
}

function renderDrawing({ id, description, drawing, height }: Chart, usualHeight: number): Html {
  if (typeof drawing === 'string') return html`<p class="empty" id="${id}">${drawing}</p>`;
  return html`<div class="plot"><p class="readout" aria-hidden="true"></p><div class="chart" id="${id}" role="img" aria-label="${description}" style="height: ${height ?? usualHeight}px"></div></div>`;
}

/**
 * The page's own script, without the source map comment of the compiler: a browser would fetch the
 * map.
 */
function readScript(): string {
  const source = readFileSync(new URL('../browser/page.js', import.meta.url), 'utf8');
  return source.replace(/^\/\/# sourceMappingURL=.*$/m, '');
}
