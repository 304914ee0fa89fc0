import type { Vocabulary } from '../text/vocabulary.js';

const encoder = new TextEncoder();

/**
 * A vocabulary in which the special tokens that are markers of a format decode to their names. In
 * other vocabularies special tokens decode to nothing.
 */
export class MarkedVocabulary implements Vocabulary {
  readonly name: string;
  readonly size: number;
  readonly endOfText: number;
  readonly endTokens: readonly number[];
  readonly #vocabulary: Vocabulary;
  readonly #markers = new Map<number, string>();

  /**
   * @param markers the texts of the markers; a marker without a special token already comes as text
   */
  constructor(vocabulary: Vocabulary, markers: readonly string[]) {
    this.name = vocabulary.name;
    this.size = vocabulary.size;
    this.endOfText = vocabulary.endOfText;
    this.endTokens = vocabulary.endTokens ?? [];
    this.#vocabulary = vocabulary;
    for (const marker of markers) {
      const tokens = vocabulary.encode(marker, false);
      if (tokens.length === 1 && !vocabulary.textOf(tokens[0])) this.#markers.set(tokens[0], marker);
    }
  }

  encode(text: string, addsSpecial?: boolean): Int32Array {
    return this.#vocabulary.encode(text, addsSpecial);
  }

  textOf(token: number): string | null {
    return this.#markers.get(token) ?? this.#vocabulary.textOf(token);
  }

  bytesOf(token: number): Uint8Array {
    const marker = this.#markers.get(token);
    return marker === undefined ? this.#vocabulary.bytesOf(token) : encoder.encode(marker);
  }
}
