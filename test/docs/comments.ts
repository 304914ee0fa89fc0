// The comments of a source file as a page, so that the check of pages reads them too.

/** A line of a comment: `//`, or a line of a block. */
const SLASHES = /^\s*(?:\/\/+|\/\*\*?|\*(?!\/))(?: (.*?))?\s*(?:\*\/)?\s*$/;
/** A line of a comment in Python, shell, CMake and YAML. */
const HASH = /^\s*#+(?: (.*?))?\s*$/;
/** Lines that are no prose: columns of a table, indented code, and directives of tools. */
const NO_PROSE = /\S {2,}\S|^ {2,}|^(?:biome-ignore|@ts-|eslint|clang)/;
/** Lines that begin a paragraph of their own: tags, and items of lists. */
const BEGINS = /^(?:@|[-*] |\d+\. |\w+=)/;

/** The prose of a source's comments, as paragraphs of Markdown. Comments behind code are left out. */
export function commentPage(path: string, source: string): string {
  const pattern = /\.(?:[cm]?[jt]s|cc?|cuh?|h)$/.test(path) ? SLASHES : HASH;
  return source
    .split('\n')
    .map((line) => {
      const text = pattern.exec(line)?.[1] ?? '';
      if (NO_PROSE.test(text)) return '';
      return BEGINS.test(text) ? `\n${text.replace(/^@(?:param \S+|\w+) /, '')}` : text;
    })
    .join('\n');
}
