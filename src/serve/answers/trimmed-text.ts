import type { AnswerReader } from './answer-reader.js';

/** Passes a text on without the white space around it. */
export class TrimmedText implements AnswerReader {
  readonly #tell: (text: string) => void;
  /** White space at the end of what was passed on, which belongs to it if more text follows. */
  #spaces = '';
  #atStart: boolean;

  /** @param atStart whether white space in front of the first text is dropped: it stands behind something else */
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

  /** Something else stands here: the white space around it is dropped. */
  cut(): void {
    this.#spaces = '';
    this.#atStart = true;
  }

  /** Nothing comes any more: white space at the end is the text's own. */
  end(): void {
    if (this.#spaces !== '') this.#tell(this.#spaces);
    this.#spaces = '';
  }
}
