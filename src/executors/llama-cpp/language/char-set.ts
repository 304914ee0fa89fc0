/**
 * A set of characters: the first and the last code point of each range, in ascending order. No two
 * ranges touch.
 */
export type CharSet = readonly number[];

export const LAST_CHAR = 0x10ffff;
export const ALL_CHARS: CharSet = [0, LAST_CHAR];

/** The set of some ranges, in any order. @param ranges first and last code point of each */
export function charSet(ranges: readonly (readonly [first: number, last: number])[]): CharSet {
  const set: number[] = [];
  for (const [first, last] of [...ranges].sort(([a], [b]) => a - b)) {
    if (set.length > 0 && first <= set[set.length - 1] + 1)
      set[set.length - 1] = Math.max(set[set.length - 1], last);
    else set.push(first, last);
  }
  return set;
}

export function charsOf(text: string): CharSet {
  return charSet([...text].map((char) => [char.codePointAt(0)!, char.codePointAt(0)!]));
}

export function union(...sets: readonly CharSet[]): CharSet {
  return charSet(sets.flatMap(rangesOf));
}

export function complement(set: CharSet): CharSet {
  const ranges: [number, number][] = [];
  let next = 0;
  for (const [first, last] of rangesOf(set)) {
    if (first > next) ranges.push([next, first - 1]);
    next = last + 1;
  }
  if (next <= LAST_CHAR) ranges.push([next, LAST_CHAR]);
  return charSet(ranges);
}

export function intersection(a: CharSet, b: CharSet): CharSet {
  return complement(union(complement(a), complement(b)));
}

export function hasChar(set: CharSet, char: number): boolean {
  for (let i = 0; i < set.length; i += 2) if (char <= set[i + 1]) return char >= set[i];
  return false;
}

function rangesOf(set: CharSet): [first: number, last: number][] {
  const ranges: [number, number][] = [];
  for (let i = 0; i < set.length; i += 2) ranges.push([set[i], set[i + 1]]);
  return ranges;
}

/** A set in GBNF. */
export function gbnfSet(set: CharSet): string {
  const ranges = rangesOf(set).map(([first, last]) =>
    first === last ? gbnfChar(first) : `${gbnfChar(first)}-${gbnfChar(last)}`,
  );
  return `[${ranges.join('')}]`;
}

function gbnfChar(char: number): string {
  const letter = String.fromCodePoint(char);
  if (/[a-zA-Z0-9]/.test(letter)) return letter;
  const hex = char.toString(16).toUpperCase();
  if (char < 0x100) return `\\x${hex.padStart(2, '0')}`;
  return char < 0x10000 ? `\\u${hex.padStart(4, '0')}` : `\\U${hex.padStart(8, '0')}`;
}
