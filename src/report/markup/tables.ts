import { type Html, type HtmlValue, html } from './html.js';

/** A table: the first column names its row, the others are figures. An empty corner is no header. */
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

/** Names and what they stand for. */
export function factTable(facts: readonly (readonly [name: string, value: HtmlValue])[]): Html {
  const rows = facts.map(([name, value]) => html`<tr><th scope="row">${name}</th><td>${value}</td></tr>\n`);
  return html`<table class="facts"><tbody>
${rows}</tbody></table>`;
}
