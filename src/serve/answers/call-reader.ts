import { type AnswerReader, type AnswerSink, LONGEST_CALL } from './answer-reader.js';
import type { CallForm, ReadCall, ToolSchemas } from './forms/call-form.js';
import { MarkerCutter } from './marker-search.js';
import { TrimmedContent } from './trimmed-content.js';

const BRACKET = /^\s*[{[]/;
/**
 * The number of characters at the start of an answer that decide whether it consists of calls
 * without a marker.
 */
const BARE_LENGTH = 100;

/** Extracts tool calls from an answer, in the format of the model family. */
export class CallReader implements AnswerReader {
  readonly #form: CallForm;
  readonly #tools: ToolSchemas;
  readonly #sink: TrimmedContent;
  readonly #begins: readonly string[];
  readonly #cutter = new MarkerCutter({
    wanted: () => this.#wanted(),
    pass: (text) => this.#pass(text),
    mark: (marker) => this.#mark(marker),
  });
  /**
   * The marker before `#body`. Empty: a call without a marker that starts with a bracket. Null:
   * outside of calls.
   */
  #begin: string | null = null;
  #body = '';
  /**
   * Whether no text has come yet. Calls without a marker are recognized only at the start of an
   * answer.
   */
  #atStart = true;
  /** Whether it is still open if the body is a call without a marker. */
  #isUnsure = false;

  /** @param isBehind whether other parts, such as reasoning, come before this answer */
  constructor(form: CallForm, tools: ToolSchemas, sink: AnswerSink, isBehind: boolean) {
    this.#form = form;
    this.#tools = tools;
    this.#sink = new TrimmedContent(sink, isBehind);
    this.#begins = form.markers.map(({ begin }) => begin);
  }

  push(piece: string): void {
    this.#cutter.push(piece);
  }

  end(): void {
    this.#cutter.end();
    // A model that ends its answer with a complete call often omits the closing marker.
    if (this.#begin !== null) this.#close('');
    this.#sink.end();
  }

  #mark(marker: string): void {
    if (this.#begins.includes(marker)) {
      if (this.#begin !== null) this.#close('');
      this.#open(marker);
    } else if (this.#begin !== null) this.#close(marker);
    // The text before this marker was too long for a call.
    else this.#sink.content(marker);
  }

  /** The markers that have a meaning at this place. */
  #wanted(): readonly string[] {
    if (this.#begin === null) return this.#begins;
    const end = this.#endOf(this.#begin);
    return end === null ? this.#begins : [end];
  }

  #endOf(begin: string): string | null {
    return this.#form.markers.find((each) => each.begin === begin)?.end ?? null;
  }

  #open(begin: string): void {
    this.#begin = begin;
    this.#body = '';
    this.#isUnsure = false;
    this.#atStart = false;
  }

  /**
   * The call is complete, or the answer has ended.
   * @param end the marker that closes the call; empty if there is none
   */
  #close(end: string): void {
    const body = this.#body;
    const mayCall = !this.#isUnsure || this.#mayCall(body);
    const calls = mayCall ? this.#read(body, end !== '') : null;
    if (calls === null) this.#giveUp(end);
    else for (const call of calls) this.#sink.call(call);
    this.#begin = null;
    this.#body = '';
  }

  #read(body: string, hasEnded: boolean): readonly ReadCall[] | null {
    try {
      return this.#form.read(body, this.#tools, hasEnded);
    } catch {
      // Text that is nested too deep, or is not JSON, is not a call.
      return null;
    }
  }

  #mayCall(begin: string): boolean {
    return this.#form.bare?.test(begin) ?? false;
  }

  /** The supposed call is passed on as text. */
  #giveUp(end: string): void {
    this.#sink.content(this.#begin + this.#body + end);
    this.#begin = null;
    this.#body = '';
  }

  #pass(text: string): void {
    if (text === '') return;
    if (this.#form.bare !== undefined && this.#atStart && this.#begin === null && BRACKET.test(text)) {
      this.#open('');
      this.#isUnsure = true;
    }
    if (this.#begin === null) {
      this.#atStart &&= text.trimStart() === '';
      this.#sink.content(text);
      return;
    }
    this.#body += text;
    if (this.#isUnsure && this.#body.length >= BARE_LENGTH) {
      this.#isUnsure = false;
      if (!this.#mayCall(this.#body.slice(0, BARE_LENGTH))) this.#giveUp('');
    } else if (this.#body.length > LONGEST_CALL) this.#giveUp('');
  }
}
