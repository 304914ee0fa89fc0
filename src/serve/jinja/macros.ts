import type { Expressions } from './expressions.js';
import type { Expression } from './operands.js';
import { Output, type Scope } from './scope.js';
import type { Tokens } from './tokens.js';
import { Callable, Tuple, Undefined, type Value } from './values/values.js';

/** How a statement ended, if `break` or `continue` ended it. */
export type Signal = 'break' | 'continue' | undefined;

/** A parsed statement: writes output in a scope. */
export type Statement = (scope: Scope, output: Output) => Signal;

/** The output of statements, as text. */
export function captured(body: Statement, scope: Scope): string {
  const output = new Output(scope.run);
  body(scope, output);
  return output.text();
}

/** A parameter of a macro, with its default value. */
export interface Parameter {
  readonly name: string;
  readonly otherwise: Expression | null;
}

/** Parses the parameters of a macro, in parentheses. */
export function readParameters(tokens: Tokens, expressions: Expressions): readonly Parameter[] {
  const parameters: Parameter[] = [];
  tokens.expect('(');
  while (!tokens.skip(')')) {
    if (parameters.length > 0) tokens.expect(',');
    const name = tokens.name();
    parameters.push({ name, otherwise: tokens.skip('=') ? expressions.read(tokens) : null });
  }
  return parameters;
}

/** Makes a macro from its body. @param around the scope that encloses the macro */
export function macroOf(
  macro: string,
  parameters: readonly Parameter[],
  body: Statement,
  around: Scope,
): Callable {
  return new Callable(macro, (args, named) =>
    around.run.nested(() => {
      const scope = around.inner();
      for (const [i, { name, otherwise }] of parameters.entries())
        scope.set(name, [args[i], named.get(name), otherwise?.(scope), missing(name)].find(isThere));
      const rest = new Map<Value, Value>(
        [...named].filter(([name]) => parameters.every((each) => each.name !== name)),
      );
      const caller = rest.get('caller');
      rest.delete('caller');
      if (rest.size > 0 && parameters.every(({ name }) => name !== 'kwargs')) scope.set('kwargs', rest);
      scope.set('varargs', Tuple.of(...args.slice(parameters.length)));
      if (caller !== undefined) scope.set('caller', caller);
      return captured(body, scope);
    }),
  );
}

/** Whether an argument was given. None counts as given. */
function isThere(value: Value): boolean {
  return value !== undefined;
}

function missing(name: string): Undefined {
  return new Undefined(`parameter '${name}' was not provided`);
}
