// Looks up the methods of a caller's object once, and binds them.
import { badArgument, show } from '../errors.js';
import { enterCallee, leaveCallee } from './callee.js';

/** A method of a caller's object. It was looked up once, and is called on that object. */
export type Bound = (...args: unknown[]) => unknown;

/**
 * Binds a method of a caller's object. Its answer is wanted at once, so a method that answers with
 * a promise counts as a method that threw. If that promise rejects later, the rejection is caught
 * and dropped. An unhandled rejection would end the process.
 */
function bindForeign(name: string, method: (...args: unknown[]) => unknown, owner: object): Bound {
  return (...args) => {
    const before = enterCallee(name);
    let answer: unknown;
    try {
      answer = Reflect.apply(method, owner, args);
      if (!isThenable(answer)) return answer;
    } finally {
      leaveCallee(before);
    }
    Promise.resolve(answer).catch(() => {});
    throw new TypeError(`answered ${show(answer)} asynchronously, but must answer synchronously`);
  };
}

/**
 * Looks up the named methods of a caller's object, each once, and binds them to the object. A bound
 * method throws a TypeError if the method answers with a promise.
 * @param what the object in words, for messages: `connector`
 * @param required names of methods that the object must have
 * @param optional names of methods that may be undefined; such a method is left out
 * @throws ERR_BLOCKSTEP_BAD_ARG naming the first method that is not a function
 */
export function bindMethods<Needed extends string, Optional extends string = never>(
  what: string,
  owner: object,
  required: readonly Needed[],
  optional: readonly Optional[] = [],
): Record<Needed, Bound> & Partial<Record<Optional, Bound>> {
  const bound: Partial<Record<string, Bound>> = {};
  const mayLack = new Set<string>(optional);
  for (const name of [...required, ...optional]) {
    const method = (owner as Record<string, unknown>)[name];
    if (method === undefined && mayLack.has(name)) continue;
    if (typeof method !== 'function') throw badArgument(`${what}.${name}`, show(method), 'a function');
    bound[name] = bindForeign(`${what}.${name}`, method as Bound, owner);
  }
  return bound as Record<Needed, Bound> & Partial<Record<Optional, Bound>>;
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return false;
  return typeof (value as { then?: unknown }).then === 'function';
}
