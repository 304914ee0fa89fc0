import type { CallForm, ReadCall } from './call-form.js';
import { MOST_NESTING, MOST_VALUES } from './json-values.js';

/** `<start_function_call>call:NAME{key:<escape>text<escape>}<end_function_call>`: FunctionGemma. */
export const FUNCTION_GEMMA: CallForm = {
  markers: [{ begin: '<start_function_call>', end: '<end_function_call>' }],
  inner: ['<escape>'],
  read: (body) => new GemmaText(body, '<escape>').calls(),
};

/** `<|tool_call>call:NAME{key:<|"|>text<|"|>}<tool_call|>`: Gemma 4. */
export const GEMMA4: CallForm = {
  markers: [{ begin: '<|tool_call>', end: '<tool_call|>' }],
  inner: ['<|"|>'],
  read: (body) => new GemmaText(body, '<|"|>').calls(),
};

/** Reads what Gemma has in place of JSON: keys without quotes, and a marker in place of the quotes of texts. What is not of the form throws. */
class GemmaText {
  readonly #text: string;
  readonly #quote: string;
  #at = 0;
  #depth = 0;
  #values = 0;

  constructor(text: string, quote: string) {
    this.#text = text.trim();
    this.#quote = quote;
  }

  calls(): readonly ReadCall[] | null {
    if (!this.#text.startsWith('call:')) return null;
    this.#at = 'call:'.length;
    const name = this.#until('{').trim();
    const value = this.#value();
    return this.#at === this.#text.length ? [{ name, arguments: JSON.stringify(value) }] : null;
  }

  #value(): unknown {
    this.#space();
    const { length } = this.#quote;
    if (this.#text.startsWith(this.#quote, this.#at)) {
      this.#at += length;
      const text = this.#until(this.#quote);
      this.#at += length;
      return text;
    }
    const letter = this.#text[this.#at];
    if (letter !== '{' && letter !== '[') return this.#plain(letter === '"');
    if (++this.#depth > MOST_NESTING) throw new Error('too deep');
    const value = letter === '{' ? this.#object() : this.#list();
    this.#depth--;
    return value;
  }

  #object(): object {
    const entries: [string, unknown][] = [];
    this.#items('}', () => {
      const isQuoted = this.#text.startsWith(this.#quote, this.#at);
      const key = isQuoted ? String(this.#value()) : this.#until(':').trim();
      if (isQuoted) this.#until(':');
      this.#at++;
      entries.push([key, this.#value()]);
    });
    return Object.fromEntries(entries);
  }

  #list(): unknown[] {
    const items: unknown[] = [];
    this.#items(']', () => items.push(this.#value()));
    return items;
  }

  #items(end: string, item: () => void): void {
    this.#at++;
    this.#space();
    while (this.#text[this.#at] !== end) {
      if (++this.#values > MOST_VALUES) throw new Error('too many values');
      item();
      this.#space();
      if (this.#text[this.#at] === ',') this.#at++;
      else if (this.#text[this.#at] !== end) throw new Error(`expected ${end}`);
      this.#space();
    }
    this.#at++;
  }

  /** A number, a truth value, nothing, or a text in quotes of JSON. */
  #plain(isText: boolean): unknown {
    const from = this.#at;
    if (isText) {
      this.#at++;
      while (this.#text[this.#at] !== '"') this.#at += this.#text[this.#at] === '\\' ? 2 : this.#one();
      this.#at++;
    } else while (this.#at < this.#text.length && !',}]'.includes(this.#text[this.#at])) this.#at++;
    return JSON.parse(this.#text.slice(from, this.#at).trim());
  }

  #one(): number {
    if (this.#at >= this.#text.length) throw new Error('a text does not end');
    return 1;
  }

  #until(marker: string): string {
    const end = this.#text.indexOf(marker, this.#at);
    if (end < 0) throw new Error(`expected ${marker}`);
    const text = this.#text.slice(this.#at, end);
    this.#at = end;
    return text;
  }

  #space(): void {
    while (' \n\r\t'.includes(this.#text[this.#at] ?? 'x')) this.#at++;
  }
}
