import { BlockstepError } from './errors.js';

/**
 * Whose code is running: the innermost function of a caller's object that blockstep is just calling, for the message of who
 * is refused because it calls back. One for all engines and schedulers, since one may be driven from inside a function that
 * another one calls.
 */
let callee = '';

/**
 * Stands before a call of foreign code; `leaveCallee` stands behind it, whatever it throws.
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

/** Whose code is running, in words. What has no name here is a getter of an argument, or listens to a diagnostics channel. */
export function describeCallee(): string {
  return callee === ''
    ? 'a callback (a diagnostics subscriber, or a getter of an argument)'
    : `${callee}(), which it is just calling`;
}

/** The refusal of a call from inside a callback. */
export function reentrant(): BlockstepError {
  return new BlockstepError(
    'ERR_BLOCKSTEP_REENTRANT',
    `the scheduler was called from inside ${describeCallee()}`,
  );
}
