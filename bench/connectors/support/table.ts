/** Prints a table in Markdown: the first column has names, the others figures. */
export function printTable(head: readonly string[], rows: readonly (readonly string[])[], title = ''): void {
  if (title !== '') console.log(`${title}\n`);
  for (const row of [head, head.map((_, i) => (i === 0 ? '---' : '---:')), ...rows])
    console.log(`| ${row.join(' | ')} |`);
  console.log();
}
