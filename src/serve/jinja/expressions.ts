import { type Expression, Operands } from './operands.js';
import type { Tokens } from './tokens.js';
import { binary, contains, joined } from './values/operators.js';
import { TemplateError } from './values/template-error.js';
import { float, isFloat, numberOf, str, Tuple, truth, Undefined } from './values/values.js';

const COMPARING = ['==', '!=', '<', '>', '<=', '>='];

/** Parses expressions, with Jinja's operator precedence. */
export class Expressions extends Operands {
  /** An expression, or a tuple of several separated by commas. */
  tuple(tokens: Tokens): Expression {
    const first = this.read(tokens);
    if (!tokens.is(',')) return first;
    const all = [first];
    while (tokens.skip(',')) {
      if (tokens.peek().type === 'end' || tokens.is(')') || tokens.is('=')) break;
      all.push(this.read(tokens));
    }
    return (scope) => Tuple.of(...all.map((each) => each(scope)));
  }

  read(tokens: Tokens): Expression {
    return tokens.nested(() => {
      let value = this.#or(tokens);
      while (tokens.skip('if', 'name')) {
        const [then, test] = [value, this.#or(tokens)];
        const other = tokens.skip('else', 'name')
          ? this.read(tokens)
          : () => new Undefined('the inline if-expression evaluated to false and no else was defined');
        value = (scope) => (truth(test(scope)) ? then(scope) : other(scope));
      }
      return value;
    });
  }

  #or(tokens: Tokens): Expression {
    let left = this.#and(tokens);
    while (tokens.skip('or', 'name')) {
      const [a, b] = [left, this.#and(tokens)];
      left = (scope) => {
        const value = a(scope);
        return truth(value) ? value : b(scope);
      };
    }
    return left;
  }

  #and(tokens: Tokens): Expression {
    let left = this.#not(tokens);
    while (tokens.skip('and', 'name')) {
      const [a, b] = [left, this.#not(tokens)];
      left = (scope) => {
        const value = a(scope);
        return truth(value) ? b(scope) : value;
      };
    }
    return left;
  }

  #not(tokens: Tokens): Expression {
    if (!tokens.skip('not', 'name')) return this.#compare(tokens);
    const of = tokens.nested(() => this.#not(tokens));
    return (scope) => !truth(of(scope));
  }

  #compare(tokens: Tokens): Expression {
    const first = this.#sum(tokens);
    const rest: [string, Expression][] = [];
    for (;;) {
      const { type, value } = tokens.peek();
      const isNotIn = type === 'name' && value === 'not' && tokens.peek(1).value === 'in';
      if (isNotIn) tokens.next();
      else if (!(type === 'op' && COMPARING.includes(value)) && !tokens.is('in', 'name')) break;
      tokens.next();
      rest.push([isNotIn ? 'not in' : value, this.#sum(tokens)]);
    }
    if (rest.length === 0) return first;
    return (scope) => {
      scope.run.step();
      let left = first(scope);
      for (const [operator, of] of rest) {
        const right = of(scope);
        const holds =
          operator === 'in' || operator === 'not in'
            ? contains(left, right, scope.run) === (operator === 'in')
            : binary(operator, left, right, scope.run) === true;
        if (!holds) return false;
        left = right;
      }
      return true;
    };
  }

  #sum(tokens: Tokens): Expression {
    return this.#binary(tokens, ['+', '-'], () => this.#concat(tokens));
  }

  #concat(tokens: Tokens): Expression {
    const first = this.#product(tokens);
    if (!tokens.is('~')) return first;
    const all = [first];
    while (tokens.skip('~')) all.push(this.#product(tokens));
    return (scope) => all.reduce((text, each) => joined(text, str(each(scope)), scope.run), '');
  }

  #product(tokens: Tokens): Expression {
    return this.#binary(tokens, ['*', '/', '//', '%'], () => this.#power(tokens));
  }

  #power(tokens: Tokens): Expression {
    return this.#binary(tokens, ['**'], () => this.#unary(tokens, true));
  }

  #binary(tokens: Tokens, operators: readonly string[], read: () => Expression): Expression {
    let left = read();
    for (;;) {
      const { type, value } = tokens.peek();
      if (type !== 'op' || !operators.includes(value)) return left;
      tokens.next();
      const [a, b] = [left, read()];
      left = (scope) => {
        scope.run.step();
        return binary(value, a(scope), b(scope), scope.run);
      };
    }
  }

  #unary(tokens: Tokens, isFiltered: boolean): Expression {
    const { type, value } = tokens.peek();
    let of: Expression;
    if (type === 'op' && (value === '-' || value === '+')) {
      tokens.next();
      const inner = tokens.nested(() => this.#unary(tokens, false));
      of = (scope) => {
        const operand = inner(scope);
        const number = numberOf(operand);
        if (number === null) throw new TemplateError(`bad operand type for unary ${value}`);
        const signed = value === '-' ? 0 - number : number;
        return isFloat(operand) ? float(signed) : signed;
      };
    } else of = this.operand(tokens);
    return isFiltered ? this.filtered(tokens, of) : of;
  }
}
