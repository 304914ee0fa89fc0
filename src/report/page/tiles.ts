// The figures at the top of a page.
import type { ChartSource } from '../charts/chart.js';
import { type Html, type HtmlValue, html } from '../markup/html.js';

/** A tile: a figure at the top of a page. */
export interface Tile {
  label: string;
  /** The figure in a few characters, or null if there is none. */
  value: HtmlValue;
  /** Its unit, or the quantity of a percentile. */
  unit: string;
  /** One more line about the figure; without a figure, the reason. */
  detail: HtmlValue;
  source: ChartSource;
}

/** The tiles of a page. A tile whose source is not the page's usual one is tagged. */
export function renderTiles(tiles: readonly Tile[], usual: ChartSource): Html {
  return html`<dl class="tiles">
${tiles.map((tile) => renderTile(tile, usual))}</dl>`;
}

function renderTile({ label, value, unit, detail, source }: Tile, usual: ChartSource): Html {
  const figure =
    value === null
      ? html`<dd class="value none">none</dd>`
      : html`<dd class="value">${value} <small>${unit}</small></dd>`;
  return html`<div class="tile"><dt>${label}${source !== usual && html` <span class="tag ${source}">${source}</span>`}</dt>${figure}<dd class="detail">${detail}</dd></div>
`;
}
