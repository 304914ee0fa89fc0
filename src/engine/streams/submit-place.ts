import { BlockstepError } from '../../base/errors.js';

/**
 * Where a request was submitted: the frames of a stack. V8 notes them when the place is captured, which takes 3.5 microseconds and
 * 850 bytes for ten frames, and writes them as text only when somebody reads `stack`. A place keeps the functions of its frames alive.
 */
export interface SubmitPlace {
  readonly stack?: unknown;
}

/** The place from which `called` was called, with as many frames as `Error.stackTraceLimit` says. */
export function capturePlace(called: (...args: never) => unknown): SubmitPlace {
  const place: SubmitPlace = {};
  Error.captureStackTrace(place, called);
  return place;
}

/**
 * The error that the readers of one request are told of a failure: like `failure`, with a stack that goes on with the place where
 * the request was submitted. That stack becomes text only when it is read, since one failure may end a hundred thousand requests.
 */
export function failureAt(failure: BlockstepError, place: SubmitPlace | null): BlockstepError {
  const { code, message } = failure;
  const told = new BlockstepError(code, message, 'cause' in failure ? { cause: failure.cause } : undefined);
  // Deleted first: to redefine the stack that is there would have V8 write it as text.
  delete told.stack;
  const define = (stack: PropertyDescriptor): unknown =>
    Object.defineProperty(told, 'stack', { configurable: true, enumerable: false, ...stack });
  define({
    get: () => `${failure.stack ?? `${failure.name}: ${message}`}${framesOf(place)}`,
    set: (value: unknown) => define({ value, writable: true }),
  });
  return told;
}

/** The frames of a place as text, without the head of its stack; empty if a program's own `Error.prepareStackTrace` made no text of them. */
function framesOf(place: SubmitPlace | null): string {
  const stack = place?.stack;
  const head = typeof stack === 'string' ? stack.indexOf('\n') : -1;
  return head < 0 ? '' : `\n  submitted${(stack as string).slice(head)}`;
}
