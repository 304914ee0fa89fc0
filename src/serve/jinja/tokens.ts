import type { Token } from './lexer.js';
import { TemplateError } from './values/template-error.js';

/** The tokens of a tag, read from front to back. */
export class Tokens {
  readonly #tokens: readonly Token[];
  #at = 0;
  #depth = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  get line(): number {
    return this.peek().line;
  }

  /** The next token, or the token `ahead` positions after it. */
  peek(ahead = 0): Token {
    return this.#tokens[Math.min(this.#at + ahead, this.#tokens.length - 1)];
  }

  next(): Token {
    const token = this.peek();
    this.#at++;
    return token;
  }

  /** Whether this operator or name is next. */
  is(value: string, type: 'op' | 'name' = 'op'): boolean {
    const token = this.peek();
    return token.type === type && token.value === value;
  }

  /** Consumes an operator or a name, if it is next. */
  skip(value: string, type: 'op' | 'name' = 'op'): boolean {
    if (!this.is(value, type)) return false;
    this.#at++;
    return true;
  }

  expect(value: string, type: 'op' | 'name' = 'op'): void {
    if (!this.skip(value, type)) throw this.error(`expected ${value}, got ${this.peek().value}`);
  }

  name(): string {
    const token = this.next();
    if (token.type === 'name') return token.value;
    throw this.error(`expected a name, got ${token.value}`);
  }

  end(): void {
    if (this.peek().type !== 'end') throw this.error(`unexpected ${this.peek().value}`);
  }

  /** Parses a nested construct. @throws TemplateError if the nesting is too deep */
  nested<T>(read: () => T): T {
    if (++this.#depth > 200) throw this.error('expressions are nested too deep');
    const made = read();
    this.#depth--;
    return made;
  }

  error(message: string): TemplateError {
    return new TemplateError(message, this.line);
  }
}
