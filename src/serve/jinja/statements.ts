import { Expressions } from './expressions.js';
import type { Segment } from './lexer.js';
import { captured, macroOf, readParameters, type Statement } from './macros.js';
import type { Expression } from './operands.js';
import { assign, type Scope, type Target } from './scope.js';
import { inRow, located, targetOf, upTo } from './tags.js';
import { Tokens } from './tokens.js';
import { Loop } from './values/loop.js';
import { TemplateError } from './values/template-error.js';
import { Callable, itemsOf, str, truth, type Value } from './values/values.js';

/** The maximum nesting depth of statements. */
const MOST_NESTING = 100;

/** Parses the segments of a template. */
export class Statements {
  readonly #expressions: Expressions;
  readonly #segments: readonly Segment[];
  #at = 0;
  #depth = 0;
  #loops = 0;

  /** @param missing collects the names of filters and tests that do not exist */
  constructor(segments: readonly Segment[], missing: Set<string>) {
    this.#segments = segments;
    this.#expressions = new Expressions(missing);
  }

  /** The whole template. @throws TemplateError */
  all(): Statement {
    return this.#body([]).body;
  }

  /**
   * Statements up to a tag with one of these names.
   * @returns the tokens after that name; null at the end of the template
   */
  #body(ends: readonly string[]): {
    readonly body: Statement;
    readonly end: Tokens | null;
    readonly name: string;
  } {
    if (++this.#depth > MOST_NESTING) throw new TemplateError('statements are nested too deep');
    const statements: Statement[] = [];
    while (this.#at < this.#segments.length) {
      const segment = this.#segments[this.#at++];
      if (segment.kind === 'text') {
        statements.push((_, output) => {
          output.write(segment.text);
          return undefined;
        });
        continue;
      }
      const tokens = new Tokens(segment.tokens);
      if (segment.kind === 'output') {
        statements.push(this.#write(tokens));
        continue;
      }
      const name = tokens.peek().value;
      if (ends.includes(name)) {
        tokens.next();
        this.#depth--;
        return { body: inRow(statements), end: tokens, name };
      }
      statements.push(this.#statement(tokens));
    }
    if (ends.length > 0) throw new TemplateError(`{% ${ends.at(-1)} %} is missing`);
    this.#depth--;
    return { body: inRow(statements), end: null, name: '' };
  }

  #write(tokens: Tokens): Statement {
    const value = this.#expressions.tuple(tokens);
    tokens.end();
    const { line } = tokens;
    return (scope, output) => {
      output.write(str(located(line, () => value(scope))));
      return undefined;
    };
  }

  #statement(tokens: Tokens): Statement {
    const { line } = tokens;
    const name = tokens.name();
    const read = Object.hasOwn(this.#readers, name) ? this.#readers[name] : undefined;
    if (read === undefined) throw new TemplateError(`unknown tag ${name}`, line);
    return read(tokens);
  }

  readonly #readers: Readonly<Record<string, (tokens: Tokens) => Statement>> = {
    if: (tokens) => this.#if(tokens),
    for: (tokens) => this.#for(tokens),
    set: (tokens) => this.#set(tokens),
    do: (tokens) => {
      const value = this.#last(tokens);
      return (scope) => {
        value(scope);
        return undefined;
      };
    },
    break: (tokens) => this.#leave(tokens, 'break'),
    continue: (tokens) => this.#leave(tokens, 'continue'),
    macro: (tokens) => {
      const name = tokens.name();
      const parameters = readParameters(tokens, this.#expressions);
      tokens.end();
      const body = this.#macroBody('endmacro');
      return (scope) => {
        scope.set(name, macroOf(name, parameters, body, scope));
        return undefined;
      };
    },
    call: (tokens) => this.#call(tokens),
    filter: (tokens) => {
      let inner: Value = '';
      let filtered = this.#expressions.filter(tokens, () => inner);
      while (tokens.skip('|')) filtered = this.#expressions.filter(tokens, filtered);
      tokens.end();
      const body = this.#block('endfilter');
      return (scope, output) => {
        inner = captured(body, scope.inner());
        output.write(str(filtered(scope)));
        return undefined;
      };
    },
    with: (tokens) => {
      const values: (readonly [string, Expression])[] = [];
      while (tokens.peek().type !== 'end') {
        if (values.length > 0) tokens.expect(',');
        const name = tokens.name();
        tokens.expect('=');
        values.push([name, this.#expressions.read(tokens)]);
      }
      const body = this.#block('endwith');
      return (scope, output) => {
        const inner = scope.inner();
        for (const [name, value] of values) inner.set(name, value(scope));
        return body(inner, output);
      };
    },
    // This block marks the assistant's text for training.
    generation: (tokens) => {
      tokens.end();
      return this.#block('endgeneration');
    },
  };

  #block(name: string): Statement {
    const { body, end } = this.#body([name]);
    end?.end();
    return body;
  }

  /** The body of a macro. Loops around the macro do not count as loops of its body. */
  #macroBody(end: string): Statement {
    const loops = this.#loops;
    this.#loops = 0;
    const body = this.#block(end);
    this.#loops = loops;
    return body;
  }

  /** The rest of a tag, as an expression. */
  #last(tokens: Tokens): Expression {
    const { line } = tokens;
    const value = this.#expressions.tuple(tokens);
    tokens.end();
    return (scope) => located(line, () => value(scope));
  }

  #leave(tokens: Tokens, signal: 'break' | 'continue'): Statement {
    tokens.end();
    if (this.#loops === 0) throw tokens.error(`${signal} outside of a loop`);
    return () => signal;
  }

  #if(tokens: Tokens): Statement {
    const branches: (readonly [Expression, Statement])[] = [];
    let test: Expression = this.#last(tokens);
    for (;;) {
      const { body, end, name } = this.#body(['elif', 'else', 'endif']);
      branches.push([test, body]);
      if (name === 'endif') break;
      test = name === 'elif' ? this.#last(end as Tokens) : () => true;
    }
    return (scope, output) => {
      scope.run.step();
      for (const [each, body] of branches) if (truth(each(scope))) return body(scope, output);
      return undefined;
    };
  }

  #for(tokens: Tokens): Statement {
    const { line } = tokens;
    const target = targetOf(tokens);
    tokens.expect('in', 'name');
    const list = this.#expressions.tuple(new Tokens(upTo(tokens, 'if')));
    const filter = tokens.skip('if', 'name') ? this.#expressions.read(tokens) : null;
    tokens.end();
    this.#loops++;
    const { body, name } = this.#body(['else', 'endfor']);
    this.#loops--;
    const otherwise = name === 'else' ? this.#block('endfor') : null;
    return (scope, output) => {
      const all = located(line, () => itemsOf(list(scope)));
      const items =
        filter === null ? [...all] : all.filter((item) => this.#passes(filter, scope, target, item));
      const loop = new Loop(items);
      for (let i = 0; i < items.length; i++) {
        scope.run.step();
        loop.go(i);
        const inner = scope.inner();
        inner.set('loop', loop);
        assign(inner, target, items[i]);
        if (body(inner, output) === 'break') break;
      }
      return items.length === 0 ? otherwise?.(scope, output) : undefined;
    };
  }

  #passes(filter: Expression, scope: Scope, target: Target, item: Value): boolean {
    scope.run.step();
    const inner = scope.inner();
    assign(inner, target, item);
    return truth(filter(inner));
  }

  #set(tokens: Tokens): Statement {
    const target = targetOf(tokens);
    if (tokens.skip('=')) {
      const value = this.#last(tokens);
      return (scope) => {
        assign(scope, target, value(scope));
        return undefined;
      };
    }
    let text: Value = '';
    let made: Expression = () => text;
    while (tokens.skip('|')) made = this.#expressions.filter(tokens, made);
    tokens.end();
    const body = this.#block('endset');
    return (scope) => {
      text = captured(body, scope.inner());
      assign(scope, target, made(scope));
      return undefined;
    };
  }

  #call(tokens: Tokens): Statement {
    const { line } = tokens;
    const parameters = tokens.is('(') ? readParameters(tokens, this.#expressions) : [];
    const name = tokens.name();
    const read = this.#expressions.arguments(tokens);
    tokens.end();
    const body = this.#macroBody('endcall');
    return (scope, output) => {
      const macro = scope.get(name);
      if (!(macro instanceof Callable)) throw new TemplateError('what is called is no macro', line);
      const { args, named } = read(scope);
      const caller = macroOf('caller', parameters, body, scope);
      output.write(str(macro.call(args, new Map([...named, ['caller', caller]]))));
      return undefined;
    };
  }
}
