import { TemplateError } from './values/template-error.js';

/** A token within a tag. */
export interface Token {
  readonly type: 'name' | 'int' | 'float' | 'string' | 'op' | 'end';
  readonly value: string;
  readonly line: number;
}

/** A piece of a template: text, or the tokens of `{{ … }}` or `{% … %}`. */
export type Segment =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'output' | 'block'; readonly tokens: readonly Token[] };

const OPENING = /\{\{|\{%|\{#/g;
const SPACE = /\s+/y;
const NAME = /[\p{L}_][\p{L}\p{N}_]*/uy;
const NUMBER = /\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?/y;
const STRING = /"(?:[^"\\]|\\[\s\S])*"|'(?:[^'\\]|\\[\s\S])*'/y;
const OPERATOR = /\*\*|\/\/|==|!=|<=|>=|[-+*/%~<>=.,:|()[\]{}]/y;
const END_RAW = /\{%([-+]?)\s*endraw\s*([-+]?)%\}/g;
const BEGIN_RAW = /\s*raw\s*([-+]?)%\}/y;

/**
 * Splits a template into text and tags. White space is handled as in Hugging Face's library: a line
 * that holds only a block leaves nothing (`trim_blocks`, `lstrip_blocks`).
 * @throws TemplateError
 */
export function segmentsOf(source: string): readonly Segment[] {
  return new Lexer(source.replace(/\r\n?/g, '\n').replace(/\n$/, '')).read();
}

class Lexer {
  readonly #source: string;
  readonly #segments: Segment[] = [];
  #at = 0;
  #line = 1;
  /** The index up to which lines have been counted. */
  #counted = 0;
  /** Whether white space at the start of the next text is dropped. */
  #strips = false;

  constructor(source: string) {
    this.#source = source;
  }

  read(): readonly Segment[] {
    for (;;) {
      OPENING.lastIndex = this.#at;
      const found = OPENING.exec(this.#source);
      if (found === null) {
        this.#text(this.#source.length, '', false);
        return this.#segments;
      }
      const sign = this.#source[found.index + 2] ?? '';
      const isSigned = sign === '-' || sign === '+';
      this.#text(found.index, isSigned ? sign : '', found[0] !== '{{');
      this.#at = found.index + (isSigned ? 3 : 2);
      if (found[0] === '{#') this.#comment();
      else if (found[0] === '{%' && this.#raw()) continue;
      else this.#tag(found[0] === '{{' ? 'output' : 'block');
    }
  }

  /**
   * The text before a tag.
   * @param sign of the tag
   * @param isBlock whether white space before a tag at the start of a line is dropped
   */
  #text(end: number, sign: string, isBlock: boolean): void {
    let text = this.#source.slice(this.#at, end);
    if (this.#strips) text = text.trimStart();
    this.#strips = false;
    if (sign === '-') text = text.trimEnd();
    else if (isBlock && sign !== '+') {
      const line = text.lastIndexOf('\n') + 1;
      const isLine = line > 0 || this.#at === 0 || this.#source[this.#at - 1] === '\n';
      if (isLine && text.slice(line).trim() === '') text = text.slice(0, line);
    }
    if (text !== '') this.#segments.push({ kind: 'text', text });
  }

  #comment(): void {
    const end = this.#source.indexOf('#}', this.#at);
    if (end < 0) throw this.#error('a comment does not end');
    const sign = this.#source[end - 1];
    this.#at = end + 2;
    this.#behind(sign, true);
  }

  /** Decides what happens to the white space after a tag. */
  #behind(sign: string, isBlock: boolean): void {
    this.#strips = sign === '-';
    if (isBlock && sign !== '+' && sign !== '-' && this.#source[this.#at] === '\n') this.#at++;
  }

  /** Reads a raw block, if one begins here. */
  #raw(): boolean {
    BEGIN_RAW.lastIndex = this.#at;
    const begin = BEGIN_RAW.exec(this.#source);
    if (begin === null) return false;
    this.#at = BEGIN_RAW.lastIndex;
    this.#behind(begin[1], true);
    END_RAW.lastIndex = this.#at;
    const end = END_RAW.exec(this.#source);
    if (end === null) throw this.#error('a raw block does not end');
    this.#text(end.index, end[1], true);
    this.#at = END_RAW.lastIndex;
    this.#behind(end[2], true);
    return true;
  }

  #tag(kind: 'output' | 'block'): void {
    const close = kind === 'output' ? '}}' : '%}';
    const tokens: Token[] = [];
    let depth = 0;
    for (;;) {
      this.#match(SPACE);
      const line = this.#lineHere();
      if (this.#at >= this.#source.length) throw this.#error(`${close} is missing`);
      const sign = this.#source[this.#at];
      const isSigned = (sign === '-' || sign === '+') && this.#source.startsWith(close, this.#at + 1);
      if (depth === 0 && (isSigned || this.#source.startsWith(close, this.#at))) {
        this.#at += close.length + (isSigned ? 1 : 0);
        tokens.push({ type: 'end', value: close, line });
        this.#segments.push({ kind, tokens });
        this.#behind(isSigned ? sign : '', kind === 'block');
        return;
      }
      const token = this.#token(line);
      if ('([{'.includes(token.value) && token.type === 'op') depth++;
      if (')]}'.includes(token.value) && token.type === 'op') depth = Math.max(0, depth - 1);
      tokens.push(token);
    }
  }

  #token(line: number): Token {
    const name = this.#match(NAME);
    if (name !== null) return { type: 'name', value: name, line };
    const number = this.#match(NUMBER);
    if (number !== null)
      return { type: /[.eE]/.test(number) ? 'float' : 'int', value: number.replaceAll('_', ''), line };
    const text = this.#match(STRING);
    if (text !== null) return { type: 'string', value: unescaped(text.slice(1, -1)), line };
    const operator = this.#match(OPERATOR);
    if (operator !== null) return { type: 'op', value: operator, line };
    throw this.#error(`unexpected ${JSON.stringify(this.#source[this.#at])}`);
  }

  #match(pattern: RegExp): string | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#source);
    if (found === null) return null;
    this.#at += found[0].length;
    return found[0];
  }

  #lineHere(): number {
    for (; this.#counted < this.#at; this.#counted++) if (this.#source[this.#counted] === '\n') this.#line++;
    return this.#line;
  }

  #error(message: string): TemplateError {
    return new TemplateError(message, this.#lineHere());
  }
}

const ESCAPES: Readonly<Record<string, string>> = {
  n: '\n',
  t: '\t',
  r: '\r',
  b: '\b',
  f: '\f',
  v: '\v',
  0: '\0',
};

function unescaped(text: string): string {
  return text.replace(
    /\\(?:x([\da-fA-F]{2})|u([\da-fA-F]{4})|([\s\S]))/g,
    (_, hex, unit, letter: string | undefined) => {
      if (letter === undefined) return String.fromCharCode(Number.parseInt((hex ?? unit) as string, 16));
      if (letter === '\n') return '';
      return ESCAPES[letter] ?? (`'"\\`.includes(letter) ? letter : `\\${letter}`);
    },
  );
}
