import { enterCallee, leaveCallee } from './callee.js';
import { badArgument, show } from './errors.js';

/** A method of a caller's object that was looked up once and is called on the object itself. */
export type Bound = (...args: unknown[]) => unknown;

/**
 * A method of a caller's object, called on the object itself. Its answers are wanted at once: a promise is none. It throws
 * then, and if the promise rejects later nothing comes of that: an unheard rejection would end the process.
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
    throw new TypeError(`answered ${show(answer)}, which comes later, where an answer is wanted at once`);
  };
}

/**
 * The named methods of a caller's object, each looked up once and bound to it.
 * @param what what the object is, for the message
 * @throws ERR_BLOCKSTEP_BAD_ARG for the first that is no function; one of `optional` may be undefined, and is left out
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
