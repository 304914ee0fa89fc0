// Tables of figures and of facts.
import { type Html, type HtmlValue, html } from './html.js';

/** A table of figures. The first column names the row; an empty first header is a plain cell. */
export function dataTable(head: readonly string[], body: readonly (readonly HtmlValue[])[]): Html {
  const header = head.map((name) => (name === '' ? html`<td></td>` : html`<th scope="col">${name}</th>`));
  const rows = body.map(
    ([name, ...cells]) =>
      html`<tr><th scope="row">${name}</th>${cells.map((cell) => html`<td>${cell}</td>`)}</tr>\n`,
  );
  return html`<div class="scroll"><table class="data">
<thead><tr>${header}</tr></thead>
<tbody>
${rows}</tbody>
</table></div>`;
}

/** A table of two columns: names, and their values. */
export function factTable(facts: readonly (readonly [name: string, value: HtmlValue])[]): Html {
  const rows = facts.map(([name, value]) => html`<tr><th scope="row">${name}</th><td>${value}</td></tr>\n`);
  return html`<table class="facts"><tbody>
${rows}</tbody></table>`;
}
