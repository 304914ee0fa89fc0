import type { AnswerReading } from '../answers/answer-forms.js';
import type { AnswerReader, AnswerSink } from '../answers/answer-reader.js';
import type { ReadCall } from '../answers/forms/call-form.js';

/** A tool call, as in OpenAI's API. */
export interface ToolCall {
  readonly id: string;
  readonly type: 'function';
  readonly function: { readonly name: string; readonly arguments: string };
}

/** The parts of an answer besides its text. */
export interface AnswerParts {
  /** The reasoning text; empty if there is none. */
  readonly reasoning: string;
  readonly calls: readonly ToolCall[];
  /** The number of calls before these. */
  readonly firstCall: number;
}

/** An answer that is parsed as it comes. It keeps its parts until they are taken. */
export class ReadAnswer implements AnswerSink {
  readonly #reader: AnswerReader;
  readonly #newId: () => string;
  readonly #isParallel: boolean;
  #content = '';
  #reasoning = '';
  #calls: ToolCall[] = [];
  #numCalls = 0;

  /**
   * @param isParallel whether there may be several calls; if not, all but the first are dropped, as
   * in vLLM
   */
  constructor(reading: AnswerReading, isParallel: boolean) {
    this.#reader = reading.open(this);
    this.#newId = () => reading.newId();
    this.#isParallel = isParallel;
  }

  get hasCalled(): boolean {
    return this.#numCalls > 0;
  }

  push(text: string): void {
    this.#reader.push(text);
  }

  end(): void {
    this.#reader.end();
  }

  content(text: string): void {
    this.#content += text;
  }

  reasoning(text: string): void {
    this.#reasoning += text;
  }

  call({ name, arguments: args }: ReadCall): void {
    if (this.#numCalls > 0 && !this.#isParallel) return;
    this.#numCalls++;
    this.#calls.push({ id: this.#newId(), type: 'function', function: { name, arguments: args } });
  }

  drainContent(): string {
    const text = this.#content;
    this.#content = '';
    return text;
  }

  drainParts(): AnswerParts | null {
    const reasoning = this.#reasoning;
    const calls = this.#calls;
    if (reasoning === '' && calls.length === 0) return null;
    this.#reasoning = '';
    this.#calls = [];
    return { reasoning, calls, firstCall: this.#numCalls - calls.length };
  }
}
