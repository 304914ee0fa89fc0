/** The last lines of a run. */
export class Journal {
  readonly #lines: string[] = [];
  readonly #kept: number;

  /** @param kept lines that are kept at least */
  constructor(kept: number) {
    this.#kept = kept;
  }

  /** Oldest first. */
  get lines(): readonly string[] {
    return this.#lines;
  }

  /** @param now of the simulated clock, in milliseconds */
  note(now: number, line: string): void {
    this.#lines.push(`${now}: ${line}`);
    if (this.#lines.length > 2 * this.#kept) this.#lines.splice(0, this.#kept);
  }
}
