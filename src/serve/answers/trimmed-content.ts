import type { AnswerSink } from './answer-reader.js';
import type { ReadCall } from './forms/call-form.js';
import { TrimmedText } from './trimmed-text.js';

/**
 * Passes on the parts of an answer, without the white space around its calls. Models write line
 * breaks there that carry no meaning.
 */
export class TrimmedContent implements AnswerSink {
  readonly #sink: AnswerSink;
  readonly #text: TrimmedText;
  #hasCalled = false;

  /**
   * @param atStart whether white space before the first text is dropped, because other parts come
   * before it
   */
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

  /**
   * The answer has ended. White space at the end of an answer without calls belongs to the answer.
   */
  end(): void {
    if (!this.#hasCalled) this.#text.end();
  }
}
