import { type GbnfPart, type GbnfRule, GbnfRules, joined, NOTHING, refTo } from './gbnf-rules.js';

/** Groups within groups, and rules that begin with rules: llama.cpp's calls of itself, for which a thread has a stack. */
const MOST_NESTING = 200;
const MOST_DEPTH = 2200;
/** Ways in which a rule may begin. llama.cpp goes all of them. */
const MOST_WAYS = 1_000_000;
const LARGEST_COUNT = 1_000_000;
const HEX_DIGITS: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };

/**
 * Checks a grammar in GBNF, before llama.cpp reads it: that one says what is wrong to the process's standard error alone, and a grammar that is
 * nested very deep, is repeated very often, or begins in very many ways ends its stack, its memory, or takes for ever. So what is refused here
 * is what it would refuse, and what no grammar of use has.
 * @param isToken whether a text is one token: `<NAME>`
 * @throws Error that says what is wrong, and where
 */
export function checkGbnf(text: string, isToken: (name: string) => boolean): void {
  const rules = new GbnfReader(text, isToken).read();
  const root = rules.named('root');
  const missing = rules.undefinedName();
  if (missing !== null) throw new Error(`there is no rule ${missing}`);
  checkBegins(rules, root);
}

/** Follows the rules with which rules begin, as llama.cpp does in search of left recursion. */
function checkBegins(rules: GbnfRules, root: number): void {
  const ways = new Float64Array(rules.count);
  const isOpen = new Uint8Array(rules.count);
  const mayBeEmpty = (id: number) => rules.get(id).some(({ size }) => size === 0);
  const visit = (id: number, depth: number): number => {
    if (ways[id] > 0) return ways[id];
    if (isOpen[id] === 1) throw new Error('a rule that begins with itself (left recursion)');
    if (depth > MOST_DEPTH) throw new Error(`rules that begin with rules, more than ${MOST_DEPTH} deep`);
    isOpen[id] = 1;
    let sum = 1;
    for (const { refs } of rules.get(id)) {
      for (const ref of refs) {
        sum += visit(ref, depth + 1);
        if (sum > MOST_WAYS) throw new Error(`a rule that may begin in more than ${MOST_WAYS} ways`);
        if (!mayBeEmpty(ref)) break;
      }
    }
    isOpen[id] = 0;
    ways[id] = sum;
    return sum;
  };
  visit(root, 0);
  for (let id = 0; id < rules.count; id++) visit(id, 0);
}

/** Reads a grammar as llama.cpp's parser does. */
class GbnfReader {
  readonly #text: string;
  readonly #isToken: (name: string) => boolean;
  readonly #rules = new GbnfRules();
  #at = 0;

  constructor(text: string, isToken: (name: string) => boolean) {
    this.#text = text;
    this.#isToken = isToken;
  }

  read(): GbnfRules {
    try {
      this.#space(true);
      while (this.#at < this.#text.length) this.#rule();
    } catch (error) {
      const lines = this.#text.slice(0, this.#at).split('\n');
      const where = `line ${lines.length}, column ${lines[lines.length - 1].length + 1}`;
      throw new Error(`${(error as Error).message}, at ${where}`);
    }
    return this.#rules;
  }

  #rule(): void {
    const id = this.#rules.named(this.#match(/[a-zA-Z0-9-]+/y, 'the name of a rule'));
    this.#space(false);
    this.#match(/::=/y, '::=');
    this.#space(true);
    this.#rules.set(id, this.#choices(0));
    if (this.#at < this.#text.length) this.#match(/\r\n?|\n/y, 'the end of the line');
    this.#space(true);
  }

  #choices(nesting: number): GbnfRule {
    const choices = [this.#sequence(nesting)];
    while (this.#take('|')) {
      this.#space(true);
      choices.push(this.#sequence(nesting));
    }
    return choices;
  }

  #sequence(nesting: number): GbnfPart {
    const isNested = nesting > 0;
    let whole = NOTHING;
    let last = NOTHING;
    for (;;) {
      const repetition = this.#repetition(isNested);
      if (repetition !== null) {
        if (last.size === 0) throw new Error('expected something to repeat');
        last = this.#rules.repeated(last, ...repetition);
      } else {
        const part = this.#part(nesting);
        whole = joined(whole, last);
        if (part === null) return whole;
        last = part;
      }
      this.#space(isNested);
    }
  }

  /** What stands at the place; null: nothing that is a part of a sequence. */
  #part(nesting: number): GbnfPart | null {
    if (this.#take('"')) return characters(this.#characters('"'));
    if (this.#take('[')) {
      this.#take('^');
      return characters(this.#characters(']'));
    }
    if (this.#take('.')) return characters(1);
    if (this.#take('(')) {
      if (nesting >= MOST_NESTING) throw new Error(`groups are nested more than ${MOST_NESTING} deep`);
      this.#space(true);
      const id = this.#rules.add(null);
      this.#rules.set(id, this.#choices(nesting + 1));
      this.#match(/\)/y, ')');
      return refTo(id);
    }
    if ('!<'.includes(this.#text[this.#at] ?? ' ')) {
      this.#take('!');
      const name = this.#match(/<(\[\d{1,9}\]>|[^[>][^>]*>)/y, 'a token: <[NUMBER]> or <NAME>');
      if (name[1] !== '[' && !this.#isToken(name))
        throw new Error(`the model has no token ${name.slice(0, 60)}`);
      return characters(1);
    }
    const name = /[a-zA-Z0-9-]+/y;
    name.lastIndex = this.#at;
    return name.test(this.#text) ? refTo(this.#rules.named(this.#match(name, 'a name'))) : null;
  }

  /** How often the part in front is to stand; null: nothing is said of that. */
  #repetition(isNested: boolean): [least: number, most: number] | null {
    if (this.#take('*')) return [0, Number.POSITIVE_INFINITY];
    if (this.#take('+')) return [1, Number.POSITIVE_INFINITY];
    if (this.#take('?')) return [0, 1];
    if (!this.#take('{')) return null;
    this.#space(isNested);
    const least = Number(this.#match(/\d{1,9}/y, 'a number'));
    this.#space(isNested);
    let most = least;
    if (this.#take(',')) {
      this.#space(isNested);
      const isOpen = this.#text[this.#at] === '}';
      most = isOpen ? LARGEST_COUNT : Number(this.#match(/\d{1,9}/y, 'a number or }'));
      this.#space(isNested);
    }
    this.#match(/\}/y, '}');
    if (most < least)
      throw new Error(`expected the lower number of a repetition first, got ${least},${most}`);
    // llama.cpp takes a number that is too large for any.
    return [least, most > MOST_COUNTED ? Number.POSITIVE_INFINITY : most];
  }

  /** Reads to the end of a literal or of a set. @returns how many characters there are */
  #characters(end: string): number {
    let count = 0;
    while (!this.#take(end)) {
      const rest = this.#match(/\\[xuU]|\\[trn\\"[\]-]|[^\\]/suy, `${end}, or an escape that there is`);
      const digits = rest.length === 2 ? HEX_DIGITS[rest[1]] : undefined;
      if (digits !== undefined)
        this.#match(new RegExp(`[0-9a-fA-F]{${digits}}`, 'y'), `${digits} hex digits`);
      count++;
    }
    return count;
  }

  #space(takesLines: boolean): void {
    this.#match(takesLines ? /(?:[ \t\r\n]+|#[^\r\n]*)*/y : /(?:[ \t]+|#[^\r\n]*)*/y, 'space');
  }

  #take(letter: string): boolean {
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

/** From this count on llama.cpp takes the upper number of a repetition for any. */
const MOST_COUNTED = 2000;

function characters(count: number): GbnfPart {
  return { refs: [], isClosed: count > 0, size: count };
}
