import type { CallForm, ReadCall } from './call-form.js';
import { ValueText } from './value-text.js';

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

/**
 * Parses Gemma's substitute for JSON: keys without quotes, and a marker instead of quotes around
 * texts. Malformed text throws.
 */
class GemmaText extends ValueText {
  readonly #quote: string;

  constructor(text: string, quote: string) {
    super(text.trim());
    this.#quote = quote;
  }

  calls(): readonly ReadCall[] | null {
    if (!this.text.startsWith('call:')) return null;
    this.at = 'call:'.length;
    const name = this.#until('{').trim();
    const value = this.value();
    return this.isAtEnd ? [{ name, arguments: JSON.stringify(value) }] : null;
  }

  protected value(): unknown {
    this.space();
    const { length } = this.#quote;
    if (this.text.startsWith(this.#quote, this.at)) {
      this.at += length;
      const text = this.#until(this.#quote);
      this.at += length;
      return text;
    }
    const letter = this.text[this.at];
    if (letter === '[') return this.list('[', ']');
    if (letter === '{') return this.object('{', '}', () => this.#key());
    return this.#plain(letter === '"');
  }

  #key(): string {
    const isQuoted = this.text.startsWith(this.#quote, this.at);
    const key = isQuoted ? String(this.value()) : this.#until(':').trim();
    if (isQuoted) this.#until(':');
    this.at++;
    return key;
  }

  /** A number, a boolean, null, or a JSON string. */
  #plain(isText: boolean): unknown {
    const from = this.at;
    if (isText) {
      this.at++;
      while (this.text[this.at] !== '"') this.at += this.text[this.at] === '\\' ? 2 : this.#one();
      this.at++;
    } else while (this.at < this.text.length && !',}]'.includes(this.text[this.at])) this.at++;
    return JSON.parse(this.text.slice(from, this.at).trim());
  }

  #one(): number {
    if (this.at >= this.text.length) throw new Error('a text does not end');
    return 1;
  }

  #until(marker: string): string {
    const end = this.text.indexOf(marker, this.at);
    if (end < 0) throw new Error(`expected ${marker}`);
    const text = this.text.slice(this.at, end);
    this.at = end;
    return text;
  }
}
