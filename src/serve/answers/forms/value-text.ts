import { MOST_NESTING, MOST_VALUES } from './json-values.js';

const SPACE = /[ \n\r\t]*/y;

/** A place in a text of values: the common parts of the readers of notations other than JSON. What is not of the notation throws. */
export abstract class ValueText {
  protected at = 0;
  #depth = 0;
  #values = 0;

  constructor(protected readonly text: string) {}

  /** Reads one value, from `at` on. */
  protected abstract value(): unknown;

  protected get isAtEnd(): boolean {
    return this.at === this.text.length;
  }

  protected list(begin: string, end: string): unknown[] {
    const items: unknown[] = [];
    this.items(begin, end, () => items.push(this.value()));
    return items;
  }

  /** @param key reads a key, and what stands between it and its value */
  protected object(begin: string, end: string, key: () => string): object {
    const entries: [string, unknown][] = [];
    this.items(begin, end, () => entries.push([key(), this.value()]));
    return Object.fromEntries(entries);
  }

  /** What stands between two brackets, with commas between the items. */
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

  /** What a sticky pattern matches here; empty: nothing. */
  protected match(pattern: RegExp): string {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0] ?? '';
    this.at += found.length;
    return found;
  }
}
