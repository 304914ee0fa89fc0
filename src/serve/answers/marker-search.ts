/** Who is told of the parts of an answer. */
interface PartsReader {
  /** The markers that matter now. */
  wanted(): readonly string[];
  /** Takes text that is no marker, perhaps an empty one. */
  pass(text: string): void;
  /** Takes one of the markers that matter. */
  mark(marker: string): void;
}

/** Cuts a text that comes in pieces at markers. What may be the begin of a marker is held back until more comes. */
export class MarkerCutter {
  readonly #reader: PartsReader;
  #held = '';

  constructor(reader: PartsReader) {
    this.#reader = reader;
  }

  push(piece: string): void {
    const text = this.#held + piece;
    const search = new MarkerSearch(text);
    for (let from = 0; ; ) {
      const wanted = this.#reader.wanted();
      const found = search.next(wanted, from);
      if (found === null) {
        const held = heldFrom(text, wanted, from);
        this.#reader.pass(text.slice(from, held));
        this.#held = text.slice(held);
        return;
      }
      this.#reader.pass(text.slice(from, found.start));
      this.#reader.mark(found.marker);
      from = found.end;
    }
  }

  /** No piece comes any more. */
  end(): void {
    this.#reader.pass(this.#held);
    this.#held = '';
  }
}

/** Where a marker stands in a text. */
interface MarkerPlace {
  readonly marker: string;
  readonly start: number;
  readonly end: number;
}

/**
 * Finds markers in one text, from its begin to its end. Each marker is looked for once in each part of the text, so that all calls of `next`
 * together take time linear in the text.
 */
class MarkerSearch {
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
