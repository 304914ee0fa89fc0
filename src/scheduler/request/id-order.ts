// Compares external ids by code points, as Python does.

/**
 * Compares two external ids by code points, as Python compares strings. `<` compares UTF-16 units instead, and so
 * puts U+1F600, whose first unit is D83D, in front of U+FF5E. A surrogate without its partner counts as the code
 * point that it is, D800 to DFFF. Nothing is allocated, because heaps compare requests that tie in everything else by
 * their ids.
 * @returns below 0 if `a` comes first, 0 if the ids are equal, above 0 if `b` comes first
 */
export function compareIds(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  let at = 0;
  while (at < length && a.charCodeAt(at) === b.charCodeAt(at)) at++;
  if (at === length) return a.length - b.length;
  // The units before are equal, but the last one may begin a surrogate pair in one id and be alone
  // in the other.
  const pairs = at > 0 ? codePoint(a, at - 1) - codePoint(b, at - 1) : 0;
  return pairs !== 0 ? pairs : codePoint(a, at) - codePoint(b, at);
}

function codePoint(id: string, at: number): number {
  return id.codePointAt(at) as number;
}
