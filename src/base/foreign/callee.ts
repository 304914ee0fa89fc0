// The name of the callback that is running, for the message that refuses a call from inside it.
import { BlockstepError } from '../errors.js';

/**
 * The name of the innermost function of a caller's object that blockstep is calling now; empty if
 * there is none. If that function calls back into blockstep, the call is refused and the message
 * has this name. All engines and schedulers share the one name, since a scheduler may be driven
 * from inside a function that another scheduler calls.
 */
let callee = '';

/**
 * Notes the name of a foreign function that is about to be called. `leaveCallee` must follow, also
 * when the function throws.
 * @param name the function's name, for instance `executor.execute`
 * @returns the name before, for `leaveCallee`
 */
export function enterCallee(name: string): string {
  const before = callee;
  callee = name;
  return before;
}

/**
 * Notes that the foreign function has returned or thrown.
 * @param before the result of `enterCallee`
 */
export function leaveCallee(before: string): void {
  callee = before;
}

/**
 * In words, whose code blockstep is calling now. Code without a name is a getter of an argument, or
 * a subscriber of a diagnostics channel.
 */
export function describeCallee(): string {
  return callee === ''
    ? 'a callback (a diagnostics subscriber, or a getter of an argument)'
    : `${callee}(), which it is just calling`;
}

/**
 * The error ERR_BLOCKSTEP_REENTRANT, which refuses a call of a scheduler from inside a callback.
 */
export function reentrant(): BlockstepError {
  return new BlockstepError(
    'ERR_BLOCKSTEP_REENTRANT',
    `the scheduler was called from inside ${describeCallee()}`,
  );
}
