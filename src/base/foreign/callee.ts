import { BlockstepError } from '../errors.js';

/**
 * The innermost function of a caller's object that blockstep is just calling. If that function calls back, it is refused, and
 * the message names it. There is one such name for all engines and schedulers, since one scheduler may be driven from inside a
 * function that another one calls.
 */
let callee = '';

/**
 * To be called before foreign code is called, and `leaveCallee` after it, also when it throws.
 * @param name of the function, such as `executor.execute`
 * @returns what `leaveCallee` needs
 */
export function enterCallee(name: string): string {
  const before = callee;
  callee = name;
  return before;
}

export function leaveCallee(before: string): void {
  callee = before;
}

/** Whose code is running, in words. Code without a name is a getter of an argument, or a subscriber of a diagnostics channel. */
export function describeCallee(): string {
  return callee === ''
    ? 'a callback (a diagnostics subscriber, or a getter of an argument)'
    : `${callee}(), which it is just calling`;
}

/** The error that refuses a call to a scheduler from inside a callback. */
export function reentrant(): BlockstepError {
  return new BlockstepError(
    'ERR_BLOCKSTEP_REENTRANT',
    `the scheduler was called from inside ${describeCallee()}`,
  );
}
