// Python's order of strings.

/** Python's order of strings: by code points, which `[...text]` spells one by one, surrogates without a partner too. */
export function byCodePoints(a: string, b: string): number {
  const [left, right] = [a, b].map((text) => Array.from(text, (char) => char.codePointAt(0) as number));
  const at = left.findIndex((point, i) => point !== right[i]);
  if (at < 0) return left.length - right.length;
  return at === right.length ? 1 : left[at] - right[at];
}
