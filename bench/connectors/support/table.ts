// Prints a table.
import { markdown } from '../../rows/table.js';

/** Prints a table in Markdown: the first column has names, the others figures. */
export function printTable(head: readonly string[], rows: readonly (readonly string[])[], title = ''): void {
  if (title !== '') console.log(`${title}\n`);
  console.log(`${markdown(head, rows)}\n`);
}
