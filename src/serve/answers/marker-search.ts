/** Receives the parts of an answer. */
interface PartsReader {
  /** The markers that have a meaning at this place. */
  wanted(): readonly string[];
  /** Receives text that is not a marker; the text may be empty. */
  pass(text: string): void;
  /** Receives one of the wanted markers. */
  mark(marker: string): void;
}

/**
 * Splits a text that arrives in pieces at markers. Text that may be the beginning of a marker is
 * held back until more text comes.
 */
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

  /** The text has ended. */
  end(): void {
    this.#reader.pass(this.#held);
    this.#held = '';
  }
}

/** The position of a marker in a text. */
interface MarkerPlace {
  readonly marker: string;
  readonly start: number;
  readonly end: number;
}

/**
 * Finds markers in one text, from its start to its end. Each part of the text is searched once for
 * each marker, so all calls of `next` together take time linear in the text.
 */
class MarkerSearch {
  readonly #text: string;
  /**
   * By marker: its next position. Infinite if the marker does not come any more; -1 if it has not
   * been searched for.
   */
  readonly #next = new Map<string, number>();

  constructor(text: string) {
    this.#text = text;
  }

  /**
   * The first of these markers that begins at `from` or later; of several at one position, the
   * longest. Successive calls must not go back.
   */
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

/**
 * The index from which the end of a text may be the beginning of a marker. The search begins at
 * `from`.
 */
export function heldFrom(text: string, markers: readonly string[], from: number): number {
  const longest = markers.reduce((most, { length }) => Math.max(most, length), 0);
  for (let start = Math.max(from, text.length - longest + 1); start < text.length; start++) {
    const end = text.slice(start);
    if (markers.some((marker) => marker.length > end.length && marker.startsWith(end))) return start;
  }
  return text.length;
}
