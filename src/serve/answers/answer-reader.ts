import type { ReadCall } from './forms/call-form.js';

/** Receives the parts of an answer. */
export interface AnswerSink {
  /** Text for the user. */
  content(text: string): void;
  /** Reasoning text. */
  reasoning(text: string): void;
  /** A complete tool call. */
  call(call: ReadCall): void;
}

/**
 * Splits an answer into reasoning, text and tool calls while its text arrives in pieces. An
 * incomplete or malformed call is passed on as text, so no part of an answer is lost. The time is
 * linear in the length of the text, and the text held back is bounded.
 */
export interface AnswerReader {
  /** Reads the next piece, of any length. */
  push(piece: string): void;
  /** The answer has ended: text that was held back is passed on. */
  end(): void;
}

/**
 * The maximum length of a call, in characters. A call is parsed in one go on the event loop: this
 * length took 4 to 15 ms. A longer call is passed on as text.
 */
export const LONGEST_CALL = 2 ** 19;
