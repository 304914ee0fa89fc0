import { BlockstepError } from '../../base/errors.js';

/**
 * Where a request was submitted: the frames of a stack. V8 captures ten frames in 3.5 microseconds and 850 bytes, which is more than all
 * else of a submission, and makes text of them only when `stack` is read. A place keeps the functions of its frames alive.
 */
export interface SubmitPlace {
  readonly stack?: unknown;
}

/** Of which submissions the place is noted: `some` are all of an engine that gets fewer than 1,000 a second, else one in 16 of the rest. */
export type SubmitPlaces = 'all' | 'some' | 'none';

export const SUBMIT_PLACES: readonly SubmitPlaces[] = ['all', 'some', 'none'];

/** Places that are noted before only some are. */
const MOST = 1000;
/** Milliseconds after which as many are noted again. */
const WINDOW_MS = 1000;
/** Of so many submissions beyond these one has its place noted. */
const ONE_IN = 16;

/** Notes where requests are submitted. */
export class PlaceNotes {
  readonly #kind: SubmitPlaces;
  readonly #now: () => number;
  /** Submissions since the window began. */
  #count = 0;
  /** When the window began. */
  #since = 0;

  /** @param now milliseconds; asked at the begin of a window, and for one in 16 of the submissions beyond its first */
  constructor(kind: SubmitPlaces, now: () => number) {
    this.#kind = kind;
    this.#now = now;
  }

  /** The place from which `called` was called, for one submission; null: it is not noted. */
  one(called: (...args: never) => unknown): SubmitPlace | null {
    return this.#kind === 'some' && !this.#isTurn() ? null : this.each(called);
  }

  /** The same for a call that submits many requests: its place is always noted, but with `none`. */
  each(called: (...args: never) => unknown): SubmitPlace | null {
    return this.#kind === 'none' ? null : capture(called);
  }

  /** Counts a submission. @returns whether its place is noted */
  #isTurn(): boolean {
    if (this.#count === 0) this.#since = this.#now();
    if (++this.#count <= MOST) return true;
    if (this.#count % ONE_IN !== 0) return false;
    if (this.#now() - this.#since >= WINDOW_MS) this.#count = 0;
    return true;
  }
}

/** Captures the place from which `called` was called, with as many frames as `Error.stackTraceLimit` says. */
function capture(called: (...args: never) => unknown): SubmitPlace {
  const place: SubmitPlace = {};
  Error.captureStackTrace(place, called);
  return place;
}

/**
 * The error for the readers of one failed request: a copy of `failure` whose stack goes on with the place of the submission. The stack
 * becomes text only when it is read, since one failure may end a hundred thousand requests.
 */
export function failureAt(failure: BlockstepError, place: SubmitPlace | null): BlockstepError {
  const { code, message } = failure;
  const told = new BlockstepError(code, message, 'cause' in failure ? { cause: failure.cause } : undefined);
  // Deleted first, because redefining the existing stack would make V8 write it as text.
  delete told.stack;
  const define = (stack: PropertyDescriptor): unknown =>
    Object.defineProperty(told, 'stack', { configurable: true, enumerable: false, ...stack });
  define({
    get: () => `${failure.stack ?? `${failure.name}: ${message}`}${framesOf(place)}`,
    set: (value: unknown) => define({ value, writable: true }),
  });
  return told;
}

/** The frames of a place as text, without the stack's first line; empty if the program's `Error.prepareStackTrace` makes no text. */
function framesOf(place: SubmitPlace | null): string {
  const stack = place?.stack;
  const head = typeof stack === 'string' ? stack.indexOf('\n') : -1;
  return head < 0 ? '' : `\n  submitted${(stack as string).slice(head)}`;
}
