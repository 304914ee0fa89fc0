import type { AnswerReader, AnswerSink } from './answer-reader.js';
import { heldFrom } from './marker-search.js';
import { TrimmedText } from './trimmed-text.js';

/** The markers that enclose the reasoning of a family of models. */
export interface ReasoningForm {
  readonly begin: string;
  readonly end: string;
  /** Further markers with special tokens of their own, within the reasoning. */
  readonly inner?: readonly string[];
  /** Whether every answer begins inside the reasoning, whatever the end of the prompt is. */
  readonly isInside?: true;
}

/** The maximum amount of white space before the start of the reasoning, in characters. */
const MOST_SPACE = 1000;

/**
 * Makes the reader of the text after the reasoning. @param isBehind whether there was any reasoning
 */
type RestReader = (isBehind: boolean) => AnswerReader;

/** Extracts the reasoning from an answer. The reasoning comes before everything else. */
export class ReasoningReader implements AnswerReader {
  readonly #form: ReasoningForm;
  /** The reasoning, without the white space around it. */
  readonly #thoughts: TrimmedText;
  readonly #openRest: RestReader;
  /**
   * The reader of the text after the reasoning; null while the reasoning goes on or may still
   * begin.
   */
  #rest: AnswerReader | null = null;
  /** Whether the text is inside the reasoning. */
  #isInside: boolean;
  /** Text that may be the beginning of a marker. */
  #held = '';
  /** Whether it is decided if the answer begins with reasoning. */
  #hasBegun = false;

  /** @param isInside whether the prompt ends with the marker that opens the reasoning */
  constructor(form: ReasoningForm, sink: AnswerSink, isInside: boolean, openRest: RestReader) {
    this.#form = form;
    this.#thoughts = new TrimmedText((text) => sink.reasoning(text), true);
    this.#isInside = isInside;
    this.#openRest = openRest;
  }

  push(piece: string): void {
    if (this.#rest !== null) {
      this.#rest.push(piece);
      return;
    }
    const text = this.#held + piece;
    this.#held = '';
    if (this.#hasBegun) this.#think(text);
    else this.#start(text);
  }

  end(): void {
    const held = this.#held;
    this.#held = '';
    if (this.#rest === null && this.#isInside) this.#thoughts.push(held);
    else if (this.#rest === null) this.#leave(held, false);
    this.#rest?.end();
  }

  /** The text may begin with the marker, after white space. */
  #start(text: string): void {
    const { begin } = this.#form;
    const start = text.length - text.trimStart().length;
    if (text.startsWith(begin, start)) {
      this.#isInside = true;
      this.#hasBegun = true;
      this.#think(text.slice(start + begin.length));
    } else if (start <= MOST_SPACE && begin.startsWith(text.slice(start))) this.#held = text;
    else if (this.#isInside) {
      this.#hasBegun = true;
      this.#think(text);
    } else this.#leave(text, false);
  }

  #think(text: string): void {
    const { end } = this.#form;
    const place = text.indexOf(end);
    if (place < 0) {
      const held = heldFrom(text, [end], 0);
      this.#thoughts.push(text.slice(0, held));
      this.#held = text.slice(held);
      return;
    }
    this.#thoughts.push(text.slice(0, place));
    this.#leave(text.slice(place + end.length), true);
  }

  #leave(rest: string, isBehind: boolean): void {
    this.#rest = this.#openRest(isBehind);
    if (rest !== '') this.#rest.push(rest);
  }
}
