import type { Scope } from './scope.js';
import type { Tokens } from './tokens.js';
import { FILTERS } from './values/filters.js';
import { attribute, item, slice } from './values/operators.js';
import { TemplateError } from './values/template-error.js';
import { TESTS } from './values/tests.js';
import { Callable, float, itemsOf, numberOf, str, Tuple, Undefined, type Value } from './values/values.js';

/** A parsed expression: yields its value in a scope. */
export type Expression = (scope: Scope) => Value;

/** The arguments of a call. */
export interface Arguments {
  readonly args: readonly Value[];
  readonly named: ReadonlyMap<string, Value>;
}

const CONSTANTS: Readonly<Record<string, Value>> = {
  true: true,
  True: true,
  false: false,
  False: false,
  none: null,
  None: null,
};
const NO_NAMES: ReadonlyMap<string, Value> = new Map();

/**
 * Parses operands, the values between operators. Unknown names of filters and tests are recorded,
 * and fail only when they are evaluated.
 */
export abstract class Operands {
  /** Descriptions of filters and tests that do not exist. */
  readonly missing: Set<string>;

  constructor(missing: Set<string>) {
    this.missing = missing;
  }

  abstract read(tokens: Tokens): Expression;

  /** An expression, or a tuple of several separated by commas. */
  abstract tuple(tokens: Tokens): Expression;

  /** A value with its attributes, items and calls, without its filters. */
  protected operand(tokens: Tokens): Expression {
    return this.#postfix(tokens, this.#primary(tokens));
  }

  #primary(tokens: Tokens): Expression {
    const token = tokens.next();
    const { type, value } = token;
    if (type === 'int') return () => Number(value);
    if (type === 'float') return () => float(Number(value));
    if (type === 'string') {
      let text = value;
      while (tokens.peek().type === 'string') text += tokens.next().value;
      return () => text;
    }
    if (type === 'name' && Object.hasOwn(CONSTANTS, value)) return () => CONSTANTS[value];
    if (type === 'name') return (scope) => scope.get(value);
    if (value === '(') {
      if (tokens.skip(')')) return () => new Tuple();
      const inner = tokens.nested(() => this.tuple(tokens));
      tokens.expect(')');
      return inner;
    }
    if (value === '[') {
      const items = this.#items(tokens, ']', () => this.read(tokens));
      return (scope) => items.map((each) => each(scope));
    }
    if (value === '{') {
      const pairs = this.#items(tokens, '}', () => {
        const key = this.read(tokens);
        tokens.expect(':');
        return [key, this.read(tokens)] as const;
      });
      return (scope) => new Map(pairs.map(([key, each]) => [key(scope), each(scope)]));
    }
    throw new TemplateError(`unexpected ${value}`, token.line);
  }

  #items<T>(tokens: Tokens, end: string, read: () => T): T[] {
    const items: T[] = [];
    while (!tokens.skip(end)) {
      if (items.length > 0) {
        tokens.expect(',');
        if (tokens.skip(end)) break;
      }
      items.push(read());
    }
    return items;
  }

  #postfix(tokens: Tokens, begin: Expression): Expression {
    let of = begin;
    for (;;) {
      const inner = of;
      if (tokens.skip('.')) {
        const { type, value } = tokens.next();
        if (type === 'int') of = (scope) => item(inner(scope), Number(value), scope.run);
        else if (type !== 'name') throw tokens.error(`expected a name, got ${value}`);
        else
          of = (scope) => {
            scope.run.step();
            return attribute(inner(scope), value, scope.run);
          };
      } else if (tokens.skip('[')) of = this.#subscript(tokens, inner);
      else if (tokens.is('(')) of = this.#call(tokens, inner);
      else return of;
    }
  }

  #subscript(tokens: Tokens, of: Expression): Expression {
    const parts: (Expression | null)[] = [];
    let colons = 0;
    while (!tokens.skip(']')) {
      if (tokens.skip(':')) colons++;
      else parts[colons] = this.tuple(tokens);
      if (colons > 2) throw tokens.error('a slice has three parts');
    }
    if (colons === 0) {
      const [key] = parts;
      if (key === undefined || key === null) throw tokens.error('a subscript is empty');
      return (scope) => {
        scope.run.step();
        return item(of(scope), key(scope), scope.run);
      };
    }
    return (scope) => {
      const places = [0, 1, 2].map((i) => {
        const value = parts[i]?.(scope) ?? null;
        return value === null ? null : numberOf(value);
      });
      return slice(of(scope), places, scope.run);
    };
  }

  #call(tokens: Tokens, of: Expression): Expression {
    const read = this.arguments(tokens);
    return (scope) => {
      scope.run.step();
      const called = of(scope);
      const { args, named } = read(scope);
      if (called instanceof Callable) return called.call(args, named);
      throw new TemplateError(
        called instanceof Undefined ? called.why : `${str(called).slice(0, 50)} is not callable`,
      );
    };
  }

  /** Parses arguments in parentheses. */
  arguments(tokens: Tokens): (scope: Scope) => Arguments {
    tokens.expect('(');
    const all = this.#items(tokens, ')', () => {
      const star = tokens.skip('**') ? '**' : tokens.skip('*') ? '*' : '';
      const name =
        star === '' &&
        tokens.peek().type === 'name' &&
        tokens.peek(1).value === '=' &&
        tokens.peek(1).type === 'op'
          ? tokens.name()
          : null;
      if (name !== null) tokens.expect('=');
      return { star, name, value: this.read(tokens) };
    });
    const isPlain = all.every(({ star, name }) => star === '' && name === null);
    if (isPlain) return (scope) => ({ args: all.map(({ value }) => value(scope)), named: NO_NAMES });
    return (scope) => {
      const args: Value[] = [];
      const named = new Map<string, Value>();
      for (const { star, name, value } of all) {
        const made = value(scope);
        if (name !== null) named.set(name, made);
        else if (star === '') args.push(made);
        else if (star === '*') for (const each of itemsOf(made)) args.push(each);
        else if (made instanceof Map) for (const [key, each] of made) named.set(str(key), each);
      }
      return { args, named };
    };
  }

  /** Applies the filters, tests and calls after an operand. */
  protected filtered(tokens: Tokens, begin: Expression): Expression {
    let of = begin;
    for (;;) {
      if (tokens.skip('|')) of = this.filter(tokens, of);
      else if (tokens.skip('is', 'name')) of = this.#test(tokens, of);
      else if (tokens.is('(') || tokens.is('.') || tokens.is('[')) of = this.#postfix(tokens, of);
      else return of;
    }
  }

  /** Parses a filter, after its `|`. */
  filter(tokens: Tokens, of: Expression): Expression {
    const name = tokens.name();
    const read = tokens.is('(') ? this.arguments(tokens) : null;
    const filter = Object.hasOwn(FILTERS, name) ? FILTERS[name] : undefined;
    if (filter === undefined) this.missing.add(`the filter ${name}`);
    return (scope) => {
      const value = of(scope);
      scope.run.step(typeof value === 'string' ? value.length : 0);
      if (filter === undefined) throw new TemplateError(`no filter named '${name}'`);
      const { args, named } = read?.(scope) ?? { args: [], named: NO_NAMES };
      return filter(value, args, named, scope.run);
    };
  }

  #test(tokens: Tokens, of: Expression): Expression {
    const isNot = tokens.skip('not', 'name');
    const { value: name } = tokens.next();
    let read: (scope: Scope) => readonly Value[] = () => [];
    const { type, value } = tokens.peek();
    const isArgument =
      ['string', 'int', 'float'].includes(type) ||
      (type === 'name' && !['else', 'or', 'and', 'if', 'is', 'in', 'not'].includes(value)) ||
      (type === 'op' && ['[', '{'].includes(value));
    if (tokens.is('(')) {
      const all = this.arguments(tokens);
      read = (scope) => all(scope).args;
    } else if (isArgument) {
      const one = this.#postfix(tokens, this.#primary(tokens));
      read = (scope) => [one(scope)];
    }
    const test = Object.hasOwn(TESTS, name) ? TESTS[name] : undefined;
    if (test === undefined && name !== 'filter' && name !== 'test') this.missing.add(`the test ${name}`);
    return (scope) => {
      scope.run.step();
      const tested = of(scope);
      const args = read(scope);
      if (name === 'filter' || name === 'test')
        return Object.hasOwn(name === 'filter' ? FILTERS : TESTS, str(tested)) !== isNot;
      if (test === undefined) throw new TemplateError(`no test named '${name}'`);
      return test(tested, args, scope.run) !== isNot;
    };
  }
}
