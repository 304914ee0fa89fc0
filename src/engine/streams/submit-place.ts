import { BlockstepError } from '../../base/errors.js';

/**
 * Where a request was submitted: the frames of a stack. V8 captures ten frames in 3.5 microseconds and 850 bytes, and makes text of them
 * only when `stack` is read. A place keeps the functions of its frames alive.
 */
export interface SubmitPlace {
  readonly stack?: unknown;
}

/** Captures the place from which the function `called` was called, with as many frames as `Error.stackTraceLimit` says. */
export function capturePlace(called: (...args: never) => unknown): SubmitPlace {
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
