import type { Token } from './lexer.js';
import type { Statement } from './macros.js';
import type { Target } from './scope.js';
import type { Tokens } from './tokens.js';
import { TemplateError } from './values/template-error.js';

/** Runs statements in sequence. */
export function inRow(statements: readonly Statement[]): Statement {
  return (scope, output) => {
    for (const each of statements) {
      const signal = each(scope, output);
      if (signal !== undefined) return signal;
    }
    return undefined;
  };
}

/** A name, `namespace.name`, or several of them separated by commas. */
export function targetOf(tokens: Tokens): Target {
  const one = (): Target => {
    if (tokens.skip('(')) {
      const inner = targetOf(tokens);
      tokens.expect(')');
      return inner;
    }
    const name = tokens.name();
    return tokens.skip('.') ? `${name}.${tokens.name()}` : name;
  };
  const first = one();
  if (!tokens.is(',')) return first;
  const all = [first];
  while (tokens.skip(',')) all.push(one());
  return all;
}

/** The tokens up to a name outside of parentheses. */
export function upTo(tokens: Tokens, name: string): readonly Token[] {
  const taken: Token[] = [];
  let depth = 0;
  for (;;) {
    const { type, value, line } = tokens.peek();
    if (type === 'end' || (depth === 0 && type === 'name' && value === name))
      return [...taken, { type: 'end', value: '%}', line }];
    taken.push(tokens.next());
    if (type === 'op' && '([{'.includes(value)) depth++;
    if (type === 'op' && ')]}'.includes(value)) depth--;
  }
}

/** Adds the line to errors that are thrown. */
export function located<T>(line: number, make: () => T): T {
  try {
    return make();
  } catch (error) {
    if (error instanceof TemplateError || !(error instanceof Error)) throw error;
    throw new TemplateError(error.message, line);
  }
}
