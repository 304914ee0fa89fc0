import { TextDecoder } from 'node:util';
import type { Vocabulary } from './vocabulary.js';

/**
 * Decodes tokens one by one. A character whose bytes are spread over several tokens comes with the
 * last of them, so no piece ends within a character. Invalid UTF-8 becomes U+FFFD. All pieces
 * together are the text of all bytes.
 *
 * Invariant: if `#decoder` is null, every byte so far has become text.
 */
export class Detokenizer {
  readonly #vocabulary: Vocabulary;
  /** Holds the bytes of an incomplete character. */
  #decoder: TextDecoder | null = null;

  constructor(vocabulary: Vocabulary) {
    this.#vocabulary = vocabulary;
  }

  /** The text that a token adds; empty if the token completes no character. */
  push(token: number): string {
    const text = this.#vocabulary.textOf(token);
    if (this.#decoder === null) {
      if (text !== null) return text;
      // A byte order mark is kept like any other character.
      this.#decoder = new TextDecoder('utf-8', { ignoreBOM: true });
    }
    const piece = this.#decoder.decode(this.#vocabulary.bytesOf(token), { stream: true });
    // A token of complete characters ends any incomplete character before it.
    if (text !== null && text !== '') this.#decoder = null;
    return piece;
  }

  /** The text that all these tokens add. */
  pushAll(tokens: Int32Array): string {
    let text = '';
    for (const token of tokens) text += this.push(token);
    return text;
  }

  /** The tokens have ended. @returns the replacement of an incomplete character */
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
