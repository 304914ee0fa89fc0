import type { AnswerReader } from './answer-reader.js';

/** Passes on a text without the white space around it. */
export class TrimmedText implements AnswerReader {
  readonly #tell: (text: string) => void;
  /** White space at the end of the text so far. It belongs to the text if more text follows. */
  #spaces = '';
  #atStart: boolean;

  /**
   * @param atStart whether white space before the first text is dropped, because other parts come
   * before it
   */
  constructor(tell: (text: string) => void, atStart: boolean) {
    this.#tell = tell;
    this.#atStart = atStart;
  }

  push(text: string): void {
    const kept = this.#atStart ? text.trimStart() : text;
    if (kept === '') return;
    this.#atStart = false;
    const trimmed = kept.trimEnd();
    if (trimmed !== '') {
      this.#tell(this.#spaces + trimmed);
      this.#spaces = '';
    }
    this.#spaces += kept.slice(trimmed.length);
  }

  /** Another part comes here, so the white space around it is dropped. */
  cut(): void {
    this.#spaces = '';
    this.#atStart = true;
  }

  /** The text has ended. White space at the end belongs to the text. */
  end(): void {
    if (this.#spaces !== '') this.#tell(this.#spaces);
    this.#spaces = '';
  }
}
