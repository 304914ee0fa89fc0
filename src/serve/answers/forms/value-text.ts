import { MOST_NESTING, MOST_VALUES } from './json-values.js';

const SPACE = /[ \n\r\t]*/y;

/**
 * A cursor in a text of values: the shared part of the parsers of formats other than JSON.
 * Malformed text throws.
 */
export abstract class ValueText {
  protected at = 0;
  #depth = 0;
  #values = 0;

  constructor(protected readonly text: string) {}

  /** Parses one value, starting at `at`. */
  protected abstract value(): unknown;

  protected get isAtEnd(): boolean {
    return this.at === this.text.length;
  }

  protected list(begin: string, end: string): unknown[] {
    const items: unknown[] = [];
    this.items(begin, end, () => items.push(this.value()));
    return items;
  }

  /** @param key parses a key and its separator */
  protected object(begin: string, end: string, key: () => string): object {
    const entries: [string, unknown][] = [];
    this.items(begin, end, () => entries.push([key(), this.value()]));
    return Object.fromEntries(entries);
  }

  /** Parses the items between two brackets, separated by commas. */
  protected items(begin: string, end: string, item: () => void): void {
    this.expect(begin);
    if (++this.#depth > MOST_NESTING) throw new Error('too deep');
    this.space();
    while (this.text[this.at] !== end) {
      if (++this.#values > MOST_VALUES) throw new Error('too many values');
      item();
      this.space();
      if (this.text[this.at] === ',') this.at++;
      else if (this.text[this.at] !== end) throw new Error(`expected ${end}`);
      this.space();
    }
    this.at++;
    this.#depth--;
  }

  protected expect(letter: string): void {
    this.space();
    if (this.text[this.at] !== letter) throw new Error(`expected ${letter}`);
    this.at++;
  }

  protected space(): void {
    this.match(SPACE);
  }

  /** Consumes the match of a sticky pattern at this place; empty if there is none. */
  protected match(pattern: RegExp): string {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0] ?? '';
    this.at += found.length;
    return found;
  }
}
