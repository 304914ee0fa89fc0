/** What a piece of text becomes. */
export interface Passed {
  /** Text that can go out. */
  readonly text: string;
  /** The stop string that ends the text; null: none yet. */
  readonly stop: string | null;
}

/**
 * Finds the end of a text that one of several strings marks, while the text comes in pieces. What may be the beginning of a stop string is
 * held back until it is known. The stop string that is whole first ends the text, wherever the borders of the pieces are; of two that are
 * whole at the same character the longer one.
 *
 * Invariant: `#held` is the longest end of the text so far that begins a stop string, and has no stop string in it.
 */
export class StopStrings {
  readonly #stops: readonly string[];
  readonly #keeps: boolean;
  readonly #longest: number;
  #held = '';
  #hasStopped = false;

  /** @param stops none is empty @param keeps whether the stop string belongs to the text */
  constructor(stops: readonly string[], keeps = false) {
    this.#stops = stops;
    this.#keeps = keeps;
    this.#longest = stops.reduce((most, { length }) => Math.max(most, length), 0);
  }

  /** Takes the next piece. Nothing passes once the text has ended. */
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

  /** No piece comes any more. @returns what was held back */
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

  /** Index from which on the text may be the beginning of a stop string. */
  #beginning(text: string): number {
    for (let from = Math.max(0, text.length - this.#longest + 1); from < text.length; from++) {
      const end = text.slice(from);
      if (this.#stops.some((stop) => stop.length > end.length && stop.startsWith(end))) return from;
    }
    return text.length;
  }
}
