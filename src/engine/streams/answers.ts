import type { Request } from '../../scheduler/request/request.js';
import type { EndReason } from '../outputs/outputs.js';
import type { OutputClose } from '../outputs/stream-output.js';

/** How an answer ended. */
type AnswerClose = OutputClose & { readonly finishReason: EndReason };

/** The end of one answer of a session. */
interface Answer {
  /** The number of tokens of the stream up to this end. */
  readonly end: number;
  readonly close: AnswerClose;
}

/** The answers of a session that have ended, until a reader has read their ends. */
export class Answers {
  readonly #unread: Answer[] = [];
  /** How the last answer ended; null before. */
  last: EndReason | null = null;

  /** Ends the current answer. @returns how the answer ended */
  add(end: number, reason: EndReason, request: Request): AnswerClose {
    const stopReason = reason === 'stop' ? request.stopReason : null;
    const close = { finishReason: reason, continues: true, stopReason };
    this.last = reason;
    this.#unread.push({ end, close });
    return close;
  }

  /** Removes and returns the oldest unread answer. */
  shift(): Answer | undefined {
    return this.#unread.shift();
  }
}
