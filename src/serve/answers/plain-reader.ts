import type { AnswerReader, AnswerSink } from './answer-reader.js';
import { TrimmedContent } from './trimmed-content.js';

/** Reads an answer that is text alone. */
export class PlainReader implements AnswerReader {
  readonly #sink: TrimmedContent;

  /** @param isBehind whether the answer stands behind something else, such as what the model thought */
  constructor(sink: AnswerSink, isBehind: boolean) {
    this.#sink = new TrimmedContent(sink, isBehind);
  }

  push(piece: string): void {
    this.#sink.content(piece);
  }

  end(): void {
    this.#sink.end();
  }
}
