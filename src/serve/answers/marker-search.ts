/** Where a marker stands in a text. */
export interface MarkerPlace {
  readonly marker: string;
  readonly start: number;
  readonly end: number;
}

/**
 * Finds markers in one text, from its begin to its end. Each marker is looked for once in each part of the text, so that all calls of `next`
 * together take time linear in the text.
 */
export class MarkerSearch {
  readonly #text: string;
  /** By marker: where it stands next; infinite if it does not come any more; -1 if nobody has looked. */
  readonly #next = new Map<string, number>();

  constructor(text: string) {
    this.#text = text;
  }

  /** The first of these markers that begins at `from` or behind; the longest one of several there. Calls go from front to back. */
  next(markers: readonly string[], from: number): MarkerPlace | null {
    let found: MarkerPlace | null = null;
    for (const marker of markers) {
      const start = this.#find(marker, from);
      if (start === Number.POSITIVE_INFINITY) continue;
      if (
        found === null ||
        start < found.start ||
        (start === found.start && marker.length > found.marker.length)
      )
        found = { marker, start, end: start + marker.length };
    }
    return found;
  }

  #find(marker: string, from: number): number {
    const known = this.#next.get(marker) ?? -1;
    if (known >= from) return known;
    const place = this.#text.indexOf(marker, from);
    const start = place < 0 ? Number.POSITIVE_INFINITY : place;
    this.#next.set(marker, start);
    return start;
  }
}

/** The index from which on the end of a text, which begins at `from`, may be the begin of a marker. */
export function heldFrom(text: string, markers: readonly string[], from: number): number {
  const longest = markers.reduce((most, { length }) => Math.max(most, length), 0);
  for (let start = Math.max(from, text.length - longest + 1); start < text.length; start++) {
    const end = text.slice(start);
    if (markers.some((marker) => marker.length > end.length && marker.startsWith(end))) return start;
  }
  return text.length;
}
