import { TextDecoder } from 'node:util';
import type { Vocabulary } from './vocabulary.js';

/**
 * Makes text of tokens one by one. A character whose bytes are spread over several tokens comes with the last of them, so no piece
 * ends in the middle of a character; bytes that are no UTF-8 become U+FFFD. All pieces together are the text of all bytes.
 *
 * Invariant: if `#decoder` is null, every byte so far has become text.
 */
export class Detokenizer {
  readonly #vocabulary: Vocabulary;
  /** Has the bytes of a character that is not whole yet. */
  #decoder: TextDecoder | null = null;

  constructor(vocabulary: Vocabulary) {
    this.#vocabulary = vocabulary;
  }

  /** The text that a token brings; empty if it brings no whole character. */
  push(token: number): string {
    const text = this.#vocabulary.textOf(token);
    if (this.#decoder === null) {
      if (text !== null) return text;
      // A byte order mark is a character as any other here.
      this.#decoder = new TextDecoder('utf-8', { ignoreBOM: true });
    }
    const piece = this.#decoder.decode(this.#vocabulary.bytesOf(token), { stream: true });
    // Whole characters end whatever was before them.
    if (text !== null && text !== '') this.#decoder = null;
    return piece;
  }

  /** The text that all these tokens bring. */
  pushAll(tokens: Int32Array): string {
    let text = '';
    for (const token of tokens) text += this.push(token);
    return text;
  }

  /** No token comes any more. @returns what a character becomes that never was whole */
  end(): string {
    const rest = this.#decoder?.decode() ?? '';
    this.#decoder = null;
    return rest;
  }
}

/** The text of tokens. */
export function decode(vocabulary: Vocabulary, tokens: Int32Array): string {
  const detokenizer = new Detokenizer(vocabulary);
  return detokenizer.pushAll(tokens) + detokenizer.end();
}
