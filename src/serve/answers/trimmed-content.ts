import type { AnswerSink } from './answer-reader.js';
import type { ReadCall } from './forms/call-form.js';
import { TrimmedText } from './trimmed-text.js';

/** Passes on what an answer has, without the white space around its calls: models write lines there, which say nothing. */
export class TrimmedContent implements AnswerSink {
  readonly #sink: AnswerSink;
  readonly #text: TrimmedText;
  #hasCalled = false;

  /** @param atStart whether white space in front of the first text is dropped: it stands behind something else */
  constructor(sink: AnswerSink, atStart: boolean) {
    this.#sink = sink;
    this.#text = new TrimmedText((text) => sink.content(text), atStart);
  }

  content(text: string): void {
    this.#text.push(text);
  }

  reasoning(text: string): void {
    this.#sink.reasoning(text);
  }

  call(call: ReadCall): void {
    this.#text.cut();
    this.#hasCalled = true;
    this.#sink.call(call);
  }

  /** Nothing comes any more: white space at the end of an answer that calls nothing is its own. */
  end(): void {
    if (!this.#hasCalled) this.#text.end();
  }
}
