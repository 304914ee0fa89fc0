import type { AnswerSink } from './answer-reader.js';
import type { ReadCall } from './forms/call-form.js';

/**
 * Passes on what an answer has, without the white space around what it thought and around its calls: models write lines between these, which
 * say nothing.
 */
export class TrimmedContent implements AnswerSink {
  readonly #sink: AnswerSink;
  /** White space at the end of what was passed on, which belongs to it if more text follows. */
  #spaces: string[] = [];
  #atStart: boolean;
  #hasCalled = false;

  /** @param atStart whether white space in front of the first text is dropped: it stands behind something else */
  constructor(sink: AnswerSink, atStart: boolean) {
    this.#sink = sink;
    this.#atStart = atStart;
  }

  content(text: string): void {
    const kept = this.#atStart ? text.trimStart() : text;
    if (kept === '') return;
    this.#atStart = false;
    const trimmed = kept.trimEnd();
    if (trimmed !== '') {
      this.#sink.content(this.#spaces.join('') + trimmed);
      this.#spaces = [];
    }
    if (trimmed.length < kept.length) this.#spaces.push(kept.slice(trimmed.length));
  }

  reasoning(text: string): void {
    this.#sink.reasoning(text);
  }

  call(call: ReadCall): void {
    this.#spaces = [];
    this.#atStart = true;
    this.#hasCalled = true;
    this.#sink.call(call);
  }

  /** Nothing comes any more: white space at the end of an answer that calls nothing is its own. */
  end(): void {
    if (this.#spaces.length > 0 && !this.#hasCalled) this.#sink.content(this.#spaces.join(''));
    this.#spaces = [];
  }
}
