import { show } from '../core/errors.js';

/**
 * A method of a caller's object, called on the object itself. Its answers are wanted at once: a promise is none. It throws
 * then, and if the promise rejects later nothing comes of that: an unheard rejection would end the process.
 */
export function bindForeign(method: unknown, owner: object): (...args: unknown[]) => unknown {
  return (...args) => {
    const answer: unknown = Reflect.apply(method as (...args: unknown[]) => unknown, owner, args);
    if (!isThenable(answer)) return answer;
    Promise.resolve(answer).catch(() => {});
    throw new TypeError(`answered ${show(answer)}, which comes later, where an answer is wanted at once`);
  };
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return false;
  return typeof (value as { then?: unknown }).then === 'function';
}
