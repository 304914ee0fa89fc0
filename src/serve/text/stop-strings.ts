/** The result of adding a piece of text. */
export interface Passed {
  /** Text that can be sent. */
  readonly text: string;
  /** The stop string that ends the text; null if there is none yet. */
  readonly stop: string | null;
}

/**
 * Finds the first of several stop strings in a text that arrives in pieces. Text that may be the
 * beginning of a stop string is held back until that is decided. The stop string that is complete
 * first ends the text, wherever the pieces are split. If two are complete at the same character,
 * the longer one counts.
 *
 * Invariant: `#held` is the longest suffix of the text so far that begins a stop string, and
 * contains no stop string.
 */
export class StopStrings {
  readonly #stops: readonly string[];
  readonly #keeps: boolean;
  readonly #longest: number;
  #held = '';
  #hasStopped = false;

  /**
   * @param stops must not contain an empty string @param keeps whether the text includes the stop
   * string
   */
  constructor(stops: readonly string[], keeps = false) {
    this.#stops = stops;
    this.#keeps = keeps;
    this.#longest = stops.reduce((most, { length }) => Math.max(most, length), 0);
  }

  /** Adds the next piece. Nothing passes once the text has ended. */
  push(piece: string): Passed {
    if (this.#hasStopped) return { text: '', stop: null };
    const text = this.#held + piece;
    const found = this.#find(text);
    if (found !== null) {
      this.#hasStopped = true;
      this.#held = '';
      return { text: text.slice(0, this.#keeps ? found.end : found.start), stop: found.stop };
    }
    const from = this.#beginning(text);
    this.#held = text.slice(from);
    return { text: text.slice(0, from), stop: null };
  }

  /** The text has ended. @returns the text that was held back */
  end(): string {
    const rest = this.#held;
    this.#held = '';
    return rest;
  }

  #find(text: string): { start: number; end: number; stop: string } | null {
    let found: { start: number; end: number; stop: string } | null = null;
    for (const stop of this.#stops) {
      const start = text.indexOf(stop);
      if (start < 0) continue;
      const end = start + stop.length;
      if (found === null || end < found.end || (end === found.end && start < found.start))
        found = { start, end, stop };
    }
    return found;
  }

  /** The index from which the text may be the beginning of a stop string. */
  #beginning(text: string): number {
    for (let from = Math.max(0, text.length - this.#longest + 1); from < text.length; from++) {
      const end = text.slice(from);
      if (this.#stops.some((stop) => stop.length > end.length && stop.startsWith(end))) return from;
    }
    return text.length;
  }
}
