import type { ReadCall } from './forms/call-form.js';

/** Who is told what an answer has. */
export interface AnswerSink {
  /** Text for the user. */
  content(text: string): void;
  /** Text that the model thought. */
  reasoning(text: string): void;
  /** A call of a tool, whole. */
  call(call: ReadCall): void;
}

/**
 * Takes an answer apart while its text comes in pieces: into what the model thought, what it says, and the calls that it makes. What is not
 * whole, or not of the form, is text: nothing of an answer is lost. Its time is linear in the text, and what it holds back is bounded.
 */
export interface AnswerReader {
  /** Takes the next piece, of any length. */
  push(piece: string): void;
  /** No piece comes any more: what was held back is told of. */
  end(): void;
}

/** Most characters of a call, which is read at once on the event loop: these took 4 to 15 ms. A longer one is text. */
export const LONGEST_CALL = 2 ** 19;
