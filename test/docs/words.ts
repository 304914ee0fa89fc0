// Finds sentences of pages and comments that are too long, or have a clause without a noun.

/** A sentence of a page that has to be read twice, and why. */
export interface Flag {
  sentence: string;
  why: string;
}

const MOST_WORDS = 25;

/** Clauses without a noun, German word order, and words in a sense of their own. They have been found in these pages. */
const CLUMSY: readonly [pattern: RegExp, why: string][] = [
  [
    /(?:^|[;:] |, (?:but|so|since|because) )what (?!to\b|it \w+|happens\b)[^?]*$/i,
    '"what" as a subject: name the thing',
  ],
  [/\bwho(?:so)?ever\b/i, '"whoever": say who that is'],
  [
    /^those (?:that|which|whose|of|with|in|behind)\b|\bthose who\b/i,
    '"those" stands for a noun: say the noun',
  ],
  [/(?:^|[,;:] )(?:it|one) (?:that|which|who|whose)\b/i, '"one that" stands for a noun: say the noun'],
  [/, and (?:is |are )?said\b|\b(?:is|are) said (?:at|by|with)\b/i, 'say who prints or reports it'],
  [/\b(?:changes|costs|has|have|does|is|are|knows|needs) (?:that|this|it|them) not\b/i, 'German word order'],
  [/\b(?:anew|but for|without a word|of (?:yours|ours)|wants? (?:to be|its))\b/i, 'say it in plain words'],
];

/** The paragraphs, items and cells of a page as plain text: no headings, no code, nothing that a program made. */
function passages(markdown: string): string[] {
  const prose = markdown
    .replace(/<!-- made by[\s\S]*?<!-- end of[^>]*-->/g, '')
    .replace(/^ *```[\s\S]*?^ *```/gm, '')
    .replace(/^(?:#| {4,}\S|\[!\[).*$/gm, '')
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/`[^`]+`(?:(?:, (?:and |or )?| and | or )`[^`]+`)*/g, 'CODE')
    .replace(/\*\*/g, '');
  return prose
    .split(/\n\s*\n|\n(?= *(?:[-*] |\d+\. |\|))/)
    .flatMap((block) =>
      block.startsWith('|') ? block.split('|') : [block.replace(/^ *(?:[-*]|\d+\.) /, '')],
    )
    .map((text) => text.replace(/\s+/g, ' ').trim());
}

/** The sentences of a page that are too long, or have one of the patterns that make readers stop. */
export function clumsySentences(markdown: string): Flag[] {
  return passages(markdown)
    .flatMap((passage) => passage.split(/(?<=[.?!]) /))
    .flatMap((sentence) => {
      const words = sentence.split(' ').length;
      const long = words > MOST_WORDS ? [{ sentence, why: `${words} words: at most ${MOST_WORDS}` }] : [];
      const found = CLUMSY.filter(([pattern]) => pattern.test(sentence));
      return [...long, ...found.map(([, why]) => ({ sentence, why }))];
    });
}
