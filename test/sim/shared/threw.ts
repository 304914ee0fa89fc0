import { Violation } from '../audit/facts.js';

/**
 * The classification of a call that threw.
 * @param call name of the call
 * @returns the violation that a callback found and threw, or else I16: the call threw
 */
export function threw(call: string, error: unknown): Violation {
  if (error instanceof Violation) return error;
  const { code = '', message = String(error), stack = '' } = error as Error & { code?: string };
  const where = stack.split('\n').slice(1, 5).join(' ').replace(/\s+/g, ' ');
  return new Violation('I16', `${call} threw ${code} ${message} ${where}`);
}
