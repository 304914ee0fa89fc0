import {
  ALL_CHARS,
  type CharSet,
  charSet,
  complement,
  hasChar,
  intersection,
  LAST_CHAR,
} from '../language/char-set.js';
import { checkPlaces } from './gbnf-places.js';
import { type GbnfPart, type GbnfRule, GbnfRules, joined, NOTHING, refTo } from './gbnf-rules.js';
import { checkWays } from './gbnf-ways.js';

/** Most nested groups. llama.cpp recurses over them, on the stack of a thread. */
const MOST_NESTING = 200;
/** Most names of tokens, and most characters of a name. Every name is tokenized at once. */
const MOST_TOKENS = 1000;
const LONGEST_NAME = 256;
const HEX_DIGITS: Readonly<Record<string, [digits: RegExp, what: string]>> = {
  x: [/[0-9a-fA-F]{2}/y, '2 hex digits'],
  u: [/[0-9a-fA-F]{4}/y, '4 hex digits'],
  U: [/[0-9a-fA-F]{8}/y, '8 hex digits'],
};
const ESCAPES: Readonly<Record<string, string>> = { t: '\t', r: '\r', n: '\n' };
const SET = /(?:\\.|[^\]\\])*\]/suy;
const PLAIN = /[ !#-[\]-~]*/y;
/**
 * Characters that a token can contain. For llama.cpp NUL ends a text, and surrogates are no
 * characters.
 */
const WRITABLE: CharSet = [1, 0xd7ff, 0xe000, 0x10ffff];

/**
 * Checks a grammar in GBNF before llama.cpp reads it. llama.cpp reports errors to the standard
 * error of the process alone. Deep nesting exhausts its stack, many repetitions its memory, and
 * many continuations its time. This function refuses all grammars that llama.cpp would refuse, and
 * grammars of a size that no practical grammar has.
 * @returns the texts that must each be one token of the model, as `<NAME>`, and their places. A
 * caller with the vocabulary checks them
 * @throws Error that names the mistake and its place
 */
export function checkGbnf(text: string): ReadonlyMap<string, string> {
  const reader = new GbnfReader(text);
  const rules = reader.read();
  const root = rules.named('root');
  const missing = rules.undefinedName();
  if (missing !== null) throw new Error(`there is no rule ${missing}`);
  const ways = checkWays(rules, root);
  const endless = rules.endless();
  if (endless.count > 0) {
    const [name] = endless.names;
    throw new Error(
      `${name === undefined ? 'a group' : `the rule ${name}`} has no text that ends: it always needs itself`,
    );
  }
  checkPlaces(rules, root, ways);
  return reader.tokens;
}

/** Among the asked rules, the name of a rule without a finite text; null: there is none. */
export function endlessRule(text: string, isAsked: (name: string) => boolean): string | null {
  return new GbnfReader(text).read().endless().names.find(isAsked) ?? null;
}

/** Reads a grammar as llama.cpp's parser does. */
class GbnfReader {
  /** Names of tokens, and the place of their first use. */
  readonly tokens = new Map<string, string>();
  readonly #text: string;
  readonly #tokenChars = new Map<string, number>();
  readonly #rules = new GbnfRules();
  /** [character] its element in a path. */
  readonly #chars = new Map<number, number>();
  /** Parsed sets, by their text behind the bracket. */
  readonly #sets = new Map<string, GbnfPart>();
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  read(): GbnfRules {
    try {
      this.#at = this.#text.indexOf('\0');
      if (this.#at >= 0) throw new Error('expected no NUL, which ends a text');
      this.#at = 0;
      this.#space(true);
      while (this.#at < this.#text.length) this.#rule();
    } catch (error) {
      throw new Error(`${(error as Error).message}, at ${this.#place()}`);
    }
    return this.#rules;
  }

  #place(): string {
    const lines = this.#text.slice(0, this.#at).split('\n');
    return `line ${lines.length}, column ${lines[lines.length - 1].length + 1}`;
  }

  #rule(): void {
    const name = this.#match(/[a-zA-Z0-9-]+/y, 'the name of a rule');
    const id = this.#rules.named(name);
    this.#rules.reading = name;
    this.#space(false);
    this.#match(/::=/y, '::=');
    this.#space(true);
    this.#rules.set(id, this.#choices(0));
    if (this.#at < this.#text.length) this.#match(/\r\n?|\n/y, 'the end of the line');
    this.#space(true);
  }

  #choices(nesting: number): GbnfRule {
    const choices = [this.#sequence(nesting)];
    while (this.#accept('|')) {
      this.#space(true);
      choices.push(this.#sequence(nesting));
    }
    return choices;
  }

  #sequence(nesting: number): GbnfPart {
    const isNested = nesting > 0;
    const parts: GbnfPart[] = [];
    let last = NOTHING;
    let within = 1;
    for (;;) {
      const repetition = this.#repetition(isNested);
      if (repetition !== null) {
        if (last.size === 0) throw new Error('expected something to repeat');
        last = this.#rules.repeated(last, ...repetition, within);
      } else {
        const before = this.#rules.count;
        const isGroup = this.#text[this.#at] === '(';
        const part = this.#part(nesting);
        parts.push(last);
        if (part === null) return joined(parts);
        last = part;
        // llama.cpp counts the rules of a group, and the names that first appear in it.
        within = isGroup ? Math.max(1, this.#rules.count - before) : 1;
      }
      this.#space(isNested);
    }
  }

  /** Reads the next part of a sequence; null: there is none. */
  #part(nesting: number): GbnfPart | null {
    if (this.#accept('"')) return this.#literal();
    if (this.#accept('[')) return this.#set();
    if (this.#accept('.')) return this.#letter(ALL_CHARS);
    if (this.#accept('(')) {
      if (nesting >= MOST_NESTING) throw new Error(`groups are nested more than ${MOST_NESTING} deep`);
      this.#space(true);
      const id = this.#rules.add(null);
      this.#rules.set(id, this.#choices(nesting + 1));
      this.#match(/\)/y, ')');
      return refTo(id);
    }
    if ('!<'.includes(this.#text[this.#at] ?? ' ')) {
      const isOther = this.#accept('!');
      const name = this.#match(/<(\[\d{1,9}\]>|[^[>][^>]*>)/y, 'a token: <[NUMBER]> or <NAME>');
      if (name[1] !== '[') this.#token(name);
      return this.#letter(this.#tokenSet(name, isOther));
    }
    const name = /[a-zA-Z0-9-]+/y;
    name.lastIndex = this.#at;
    return name.test(this.#text) ? refTo(this.#rules.named(this.#match(name, 'a name'))) : null;
  }

  /**
   * A token as a set of characters. The token has a character of its own, beyond all others. It may
   * also be spelled by characters that other places accept, so the set contains all characters.
   */
  #tokenSet(name: string, isOther: boolean): CharSet {
    let char = this.#tokenChars.get(name);
    if (char === undefined) {
      char = LAST_CHAR + 1 + this.#tokenChars.size;
      this.#tokenChars.set(name, char);
    }
    const ranges: [number, number][] = [[0, LAST_CHAR]];
    if (!isOther) ranges.push([char, char]);
    else ranges.push([0, char - 1], [char + 1, Number.MAX_SAFE_INTEGER]);
    return charSet(ranges);
  }

  #letter(set: CharSet): GbnfPart {
    return { path: [this.#rules.letter(set)], needs: [], size: 1 };
  }

  #token(name: string): void {
    if (this.tokens.has(name)) return;
    if (name.length > LONGEST_NAME) throw new Error(`the model has no token ${name.slice(0, 60)}...`);
    if (this.tokens.size === MOST_TOKENS) throw new Error(`more than ${MOST_TOKENS} names of tokens`);
    this.tokens.set(name, this.#place());
  }

  /** Reads how often the previous part repeats; null: no repetition follows. */
  #repetition(isNested: boolean): [least: number, most: number] | null {
    if (this.#accept('*')) return [0, Number.POSITIVE_INFINITY];
    if (this.#accept('+')) return [1, Number.POSITIVE_INFINITY];
    if (this.#accept('?')) return [0, 1];
    if (!this.#accept('{')) return null;
    this.#space(isNested);
    const least = Number(this.#match(/\d{1,9}/y, 'a number'));
    this.#space(isNested);
    let most = least;
    if (this.#accept(',')) {
      this.#space(isNested);
      const isOpen = this.#text[this.#at] === '}';
      most = isOpen ? Number.POSITIVE_INFINITY : Number(this.#match(/\d{1,9}/y, 'a number or }'));
      this.#space(isNested);
    }
    this.#match(/\}/y, '}');
    if (most < least)
      throw new Error(`expected the lower number of a repetition first, got ${least},${most}`);
    // llama.cpp reads a count that is too large as any number.
    return [least, most > MOST_COUNTED ? Number.POSITIVE_INFINITY : most];
  }

  /** Reads to the end of a literal. */
  #literal(): GbnfPart {
    const path: number[] = [];
    while (!this.#accept('"')) {
      // Most characters are plain letters, which are read at once.
      PLAIN.lastIndex = this.#at;
      const plain = PLAIN.exec(this.#text)?.[0] ?? '';
      this.#at += plain.length;
      for (let i = 0; i < plain.length; i++) path.push(this.#char(plain.charCodeAt(i)));
      if (this.#accept('"')) break;
      const char = this.#character('"');
      if (!hasChar(WRITABLE, char)) throw new Error('expected a character that a text can have');
      path.push(this.#char(char));
    }
    return { path, needs: [], size: path.length };
  }

  #char(char: number): number {
    let letter = this.#chars.get(char);
    if (letter === undefined) {
      letter = this.#rules.letter([char, char]);
      this.#chars.set(char, letter);
    }
    return letter;
  }

  /** Reads to the end of a set. Equal sets are parsed once. */
  #set(): GbnfPart {
    SET.lastIndex = this.#at;
    const text = SET.exec(this.#text)?.[0] ?? '';
    let set = this.#sets.get(text);
    if (set !== undefined) {
      this.#at += text.length;
      return set;
    }
    set = this.#newSet();
    this.#sets.set(text, set);
    return set;
  }

  #newSet(): GbnfPart {
    const isOther = this.#accept('^');
    const ranges: [number, number][] = [];
    while (!this.#accept(']')) {
      const first = this.#character(']');
      let last = first;
      if (this.#text[this.#at] === '-' && this.#text[this.#at + 1] !== ']') {
        this.#at++;
        last = this.#character(']');
      }
      if (last < first) throw new Error('expected a range whose first character is not behind its last');
      ranges.push([first, last]);
    }
    const set = isOther ? complement(charSet(ranges)) : charSet(ranges);
    if (intersection(set, WRITABLE).length === 0)
      throw new Error('expected a set with a character that a text can have');
    return { ...this.#letter(set), size: Math.max(1, ranges.length) };
  }

  /** Reads a character of a literal or of a set. @returns its code point */
  #character(end: string): number {
    const letters = this.#match(/\\[xuU]|\\[trn\\"[\]-]|[^\\]/suy, `${end}, or an escape that there is`);
    if (letters[0] !== '\\') return letters.codePointAt(0)!;
    const digits = HEX_DIGITS[letters[1]];
    if (digits === undefined) return (ESCAPES[letters[1]] ?? letters[1]).codePointAt(0)!;
    return Number.parseInt(this.#match(...digits), 16);
  }

  #space(takesLines: boolean): void {
    this.#match(takesLines ? /(?:[ \t\r\n]+|#[^\r\n]*)*/y : /(?:[ \t]+|#[^\r\n]*)*/y, 'space');
  }

  #accept(letter: string): boolean {
    if (this.#text[this.#at] !== letter) return false;
    this.#at++;
    return true;
  }

  #match(pattern: RegExp, what: string): string {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0];
    if (found === undefined) throw new Error(`expected ${what}`);
    this.#at += found.length;
    return found;
  }
}

/** Above this count, llama.cpp reads the upper limit of a repetition as any number. */
const MOST_COUNTED = 2000;
