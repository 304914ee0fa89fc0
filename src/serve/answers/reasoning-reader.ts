import type { AnswerReader, AnswerSink } from './answer-reader.js';
import { heldFrom } from './marker-search.js';
import { TrimmedText } from './trimmed-text.js';

/** The markers between which a family of models thinks. */
export interface ReasoningForm {
  readonly begin: string;
  readonly end: string;
  /** What else a token of its own stands for within the markers. */
  readonly inner?: readonly string[];
  /** Whether every answer begins within them, whatever the prompt ends with. */
  readonly isInside?: true;
}

/** Most white space in front of the begin of thoughts. */
const MOST_SPACE = 1000;

/** Makes the reader of what stands behind the thoughts. @param isBehind whether there were any */
type RestReader = (isBehind: boolean) => AnswerReader;

/** Takes what the model thought out of an answer: it stands in front of all else. */
export class ReasoningReader implements AnswerReader {
  readonly #form: ReasoningForm;
  /** What it thinks, without the white space around it. */
  readonly #thoughts: TrimmedText;
  readonly #openRest: RestReader;
  /** The reader of what is behind the thoughts; null: they go on, or may begin yet. */
  #rest: AnswerReader | null = null;
  /** Whether the model thinks. */
  #isInside: boolean;
  /** Text that may be the begin of a marker. */
  #held = '';
  /** Whether it is known how the answer begins. */
  #hasBegun = false;

  /** @param isInside whether the prompt ends with the begin of the thoughts */
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

  /** The text may begin with the marker, behind white space. */
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
