import { readFileSync } from 'node:fs';
import type { Chart } from './chart.js';
import { type Html, type HtmlValue, html, trusted } from './html.js';
import type { PlotLibrary } from './library.js';
import { embedJson, embedScript } from './script.js';
import { STYLE } from './style.js';

/** A part of a page: charts in two columns, or anything else in one panel. */
export type Section =
  | { title: string; intro?: HtmlValue; charts: readonly Chart[] }
  | { title: string; intro?: HtmlValue; content: Html };

export interface PageInput {
  title: HtmlValue;
  /** The title without markup. */
  plainTitle: string;
  /** What the page shows and how to take it. */
  lead: HtmlValue;
  /** What must not be overlooked. */
  warning: HtmlValue;
  sections: readonly Section[];
  footer: HtmlValue;
  /** Everything that the page shows, for programs: a data block with the id `report`. */
  data: unknown;
}

const TAGS = { virtual: 'virtual time', measured: 'measured' };
const CHART_HEIGHT = 300;

/**
 * A whole page in one file: no address in it is ever fetched, and its policy forbids that and every script but its own
 * two. Opens from a disk as well as from a server.
 */
export function renderPage(input: PageInput, library: PlotLibrary): string {
  const charts = input.sections.flatMap((section) => ('charts' in section ? section.charts : []));
  const plots = embedScript(library.source);
  const script = embedScript(readScript(), 'type="module"');
  const policy = [
    "default-src 'none'",
    `script-src ${plots.hash} ${script.hash}`,
    "style-src 'unsafe-inline'",
    "base-uri 'none'",
    "form-action 'none'",
  ];
  const forScript = charts.map(({ id, option, tooltip }) => ({ id, option, tooltip }));
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
<h1>${input.title}</h1>
<p class="lead">${input.lead}</p>
${input.warning !== null && html`<p class="warning" role="note">${input.warning}</p>`}
<noscript><p class="warning">The charts need JavaScript; every figure stands in the tables too.</p></noscript>
</header>
<main>
${input.sections.map(renderSection)}
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

function renderSection(section: Section): Html {
  const intro = section.intro !== undefined && html`<p>${section.intro}</p>`;
  const content =
    'charts' in section
      ? html`<div class="columns">${section.charts.map(renderChart)}</div>`
      : html`<div class="panel">${section.content}</div>`;
  return html`<section>
<h2>${section.title}</h2>
${intro}
${content}
</section>
`;
}

function renderChart(chart: Chart): Html {
  const { id, title, source, description, note, height = CHART_HEIGHT, wide, table } = chart;
  return html`<figure class="${wide ? 'panel wide' : 'panel'}">
<header><h3 id="${id}-title">${title}</h3><span class="tag">${TAGS[source]}</span></header>
<div class="chart" id="${id}" role="img" aria-label="${description}" style="height: ${height}px"></div>
<figcaption>${note ?? ''}</figcaption>
${table}
</figure>
`;
}

/** The page's own script, without the mark that a compiler left for debuggers: it would be fetched. */
function readScript(): string {
  const source = readFileSync(new URL('./browser/page.js', import.meta.url), 'utf8');
  return source.replace(/^\/\/# sourceMappingURL=.*$/m, '');
}
