import { isObject } from '../../base/checks.js';
import { type AnswerReader, type AnswerSink, LONGEST_CALL } from './answer-reader.js';
import type { ReadCall } from './forms/call-form.js';
import { argumentsOf, parseJson } from './forms/json-values.js';

/**
 * Parses an answer that a grammar constrained to tool calls: the arguments of one tool, or a list
 * of calls with their names. An answer that was truncated, or is too long for a call, is passed on
 * as text.
 */
export class ForcedReader implements AnswerReader {
  readonly #sink: AnswerSink;
  readonly #name: string | null;
  readonly #pieces: string[] = [];
  #length = 0;

  /**
   * @param name of the tool that must be called. Null: any tool, and the answer is a list of
   * `{ name, parameters }`.
   */
  constructor(sink: AnswerSink, name: string | null) {
    this.#sink = sink;
    this.#name = name;
  }

  push(piece: string): void {
    this.#length += piece.length;
    if (this.#length <= LONGEST_CALL) {
      this.#pieces.push(piece);
      return;
    }
    this.#sink.content(this.#pieces.join('') + piece);
    this.#pieces.length = 0;
  }

  end(): void {
    if (this.#length > LONGEST_CALL) return;
    const text = this.#pieces.join('');
    const calls = this.#read(text);
    if (calls === null) {
      if (text !== '') this.#sink.content(text);
    } else for (const call of calls) this.#sink.call(call);
  }

  #read(text: string): readonly ReadCall[] | null {
    try {
      const value: unknown = parseJson(text);
      if (this.#name !== null) {
        const args = argumentsOf(value);
        return args === null ? null : [{ name: this.#name, arguments: args }];
      }
      return (value as unknown[]).map((each) => {
        const { name, parameters } = isObject(each) ? each : {};
        const args = argumentsOf(parameters);
        if (typeof name !== 'string' || args === null) throw new Error('no call');
        return { name, arguments: args };
      });
    } catch {
      return null;
    }
  }
}
