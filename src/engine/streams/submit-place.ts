import { BlockstepError } from '../../base/errors.js';

/**
 * The place where a request was submitted: the frames of a stack. V8 captures ten frames in 3.5
 * microseconds and 850 bytes, which is more than all else of a submission. It formats them as text
 * only when `stack` is read. A place keeps the functions of its frames alive.
 */
export interface SubmitPlace {
  readonly stack?: unknown;
}

/**
 * The submissions whose place is captured. `some`: all submissions while there are fewer than 1,000
 * a second, and one in 16 of those beyond.
 */
export type SubmitPlaces = 'all' | 'some' | 'none';

export const SUBMIT_PLACES: readonly SubmitPlaces[] = ['all', 'some', 'none'];

/** The number of places that are captured in each window before only some are. */
const MOST = 1000;
/** The length of a window, in milliseconds. */
const WINDOW_MS = 1000;
/** Beyond that number, one in this many submissions is captured. */
const ONE_IN = 16;

/** Captures where requests are submitted. */
export class PlaceNotes {
  readonly #kind: SubmitPlaces;
  readonly #now: () => number;
  /** Submissions since the window began. */
  #count = 0;
  /** When the window began. */
  #since = 0;

  /**
   * @param now milliseconds; read at the begin of a window, and for one in 16 of the submissions
   * beyond its first
   */
  constructor(kind: SubmitPlaces, now: () => number) {
    this.#kind = kind;
    this.#now = now;
  }

  /** The place from which `called` was called, for one submission; null if it is not captured. */
  one(called: (...args: never) => unknown): SubmitPlace | null {
    return this.#kind === 'some' && !this.#isTurn() ? null : this.each(called);
  }

  /**
   * The same for a call that submits many requests: its place is always captured, except with
   * `none`.
   */
  each(called: (...args: never) => unknown): SubmitPlace | null {
    return this.#kind === 'none' ? null : capture(called);
  }

  /** Counts a submission. @returns whether its place is captured */
  #isTurn(): boolean {
    if (this.#count === 0) this.#since = this.#now();
    if (++this.#count <= MOST) return true;
    if (this.#count % ONE_IN !== 0) return false;
    if (this.#now() - this.#since >= WINDOW_MS) this.#count = 0;
    return true;
  }
}

/** Captures the place from which `called` was called, with `Error.stackTraceLimit` frames. */
function capture(called: (...args: never) => unknown): SubmitPlace {
  const place: SubmitPlace = {};
  Error.captureStackTrace(place, called);
  return place;
}

/**
 * The error for the readers of one failed request: a copy of `failure` whose stack continues with
 * the place of the submission. The stack is formatted only when it is read, because one failure may
 * end a hundred thousand requests.
 */
export function failureAt(failure: BlockstepError, place: SubmitPlace | null): BlockstepError {
  const { code, message } = failure;
  const told = new BlockstepError(code, message, 'cause' in failure ? { cause: failure.cause } : undefined);
  // The stack is deleted first, because redefining the existing one would make V8 format it as
  // text.
  delete told.stack;
  const define = (stack: PropertyDescriptor): unknown =>
    Object.defineProperty(told, 'stack', { configurable: true, enumerable: false, ...stack });
  define({
    get: () => `${failure.stack ?? `${failure.name}: ${message}`}${framesOf(place)}`,
    set: (value: unknown) => define({ value, writable: true }),
  });
  return told;
}

/**
 * The frames of a place as text, without the stack's first line; empty if the program's
 * `Error.prepareStackTrace` returns no text.
 */
function framesOf(place: SubmitPlace | null): string {
  const stack = place?.stack;
  const head = typeof stack === 'string' ? stack.indexOf('\n') : -1;
  return head < 0 ? '' : `\n  submitted${(stack as string).slice(head)}`;
}
